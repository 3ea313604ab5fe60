"""Requests the parts of a broker's state that must survive kill −9 and a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.declare import Message
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.list_groups import ListGroupsRequest
from kafkawire.messages.list_transactions import ListTransactionsRequest
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from responses import sole

OFFSETS = "the offsets of group"
Ask = Callable[[Message, int], Any]
"""Sends a request in a version, and returns the response."""
TOPIC, DYNAMIC_TOPIC = 2, 1
"""The resource type of topics, and the config source of settings that a topic has itself."""


def durable(ask: Ask, groups: list[str]) -> dict[str, Any]:
    """Returns the topics, their settings, the committed offsets and the transactions. Each key is a text with the name of the
    thing.
    """
    known: dict[str, Any] = {}
    for topic in ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12).topics:
        known[f"topic {topic.name}"] = (topic.topic_id, len(topic.partitions))
        asked = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic.name, configuration_keys=None)
        response = sole(ask(DescribeConfigsRequest(resources=[asked]), 4).results)
        own = {each.name: each.value for each in response.configs if each.config_source == DYNAMIC_TOPIC}
        known[f"the settings of topic {topic.name}"] = own
    listed = [each.group_id for each in ask(ListGroupsRequest(), 4).groups]
    for group in {*groups, *listed}:
        known[f"{OFFSETS} {group}"] = _offsets(ask, group)
    for each in ask(ListTransactionsRequest(duration_filter=-1), 1).transaction_states:
        found = ask(DescribeTransactionsRequest(transactional_ids=[each.transactional_id]), 0).transaction_states[0]
        state, topics = found.transaction_state, {topic.topic: sorted(topic.partitions) for topic in found.topics}
        if state.startswith("Prepare"):  # a restarted coordinator completes the transaction
            state, topics = state.replace("Prepare", "Complete"), {}
        who = (state, found.producer_id, found.producer_epoch, found.transaction_timeout_ms, topics)
        known[f"transaction {each.transactional_id}"] = who
    return known


def _offsets(ask: Ask, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=False)
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.metadata or "")
        for topic in sole(ask(request, 8).groups).topics
        for each in topic.partitions
    }


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Returns a text with all differences."""
    told = [
        f"{what}: {before.get(what)!r}, and afterwards {after.get(what)!r}"
        for what in sorted(before.keys() | after.keys())
        if (before.get(what) or None) != (after.get(what) or None)
    ]
    return "\n".join(told)
