"""ConsumerGroupDescribe, versions 0–1: the members of consumer groups (KIP-848), with assignments and targets.

From version 1 the response has each member's protocol. Classic groups are not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from wirebroker.apis.described import Slices, described
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import MEMBER, weighted_pauses
from wirebroker.core.groups.assignors import NOTHING, Partitions
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.consumer_member import ConsumerMember

CLASSIC, CONSUMER = 0, 1


def handle(request: ConsumerGroupDescribeRequest, exchange: Exchange) -> Steps:
    groups, pause = exchange.engine.groups.consumers, weighted_pauses()

    def fill(group: ConsumerGroup, entry: DescribedGroup) -> Slices:
        entry.assignor_name = group.preferred_assignor() or groups.default_assignor()
        # When a member changes, a new object replaces the old object, so the objects in this list stay the same.
        for member, target in [(group.members[each], group.targets.get(each, NOTHING)) for each in group.in_order()]:
            yield from pause(MEMBER + len(member.topics) + len(member.assigned) + len(target))
            entry.members.append(_member(member, target, exchange))

    entries = yield from described(DescribedGroup, ConsumerGroup, fill, request, exchange, enabled=groups.enabled)
    return ConsumerGroupDescribeResponse(groups=entries)


def _member(member: ConsumerMember, target: Partitions, exchange: Exchange) -> Member:
    holds: dict[bytes, list[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic_id, indexes in owned.items():
            holds.setdefault(topic_id, []).extend(indexes)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(holds, exchange),
        target_assignment=_assignment(target, exchange),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(held: Mapping[bytes, Iterable[int]], exchange: Exchange) -> Assignment:
    """Returns an assignment without deleted topics."""
    known = exchange.cluster.topics_by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=sorted(indexes))
            for topic_id, indexes in held.items()
            if topic_id in known
        ]
    )
