"""ConsumerGroupDescribe, versions 0–1: the members of consumer groups (KIP-848), with assignments and targets.

From version 1 the response has each member's protocol. Classic groups are not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from wirebroker.apis.described import describe, refused
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, MEMBER, pauses, weighted_pauses
from wirebroker.core.groups.assignors import NOTHING, Partitions
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.consumer_member import ConsumerMember
from wirebroker.core.refusals import Refusal

CLASSIC, CONSUMER = 0, 1


def handle(request: ConsumerGroupDescribeRequest, exchange: Exchange) -> Steps:
    if not exchange.engine.groups.consumers.enabled:
        why = Refusal(ErrorCode.UNSUPPORTED_VERSION)
        return ConsumerGroupDescribeResponse(
            groups=[refused(DescribedGroup, group_id, why, assignor_name="") for group_id in request.group_ids]
        )
    pause_for_id, pause = pauses(IDS), weighted_pauses()
    known: dict[str, DescribedGroup] = {}
    for group_id in dict.fromkeys(request.group_ids):
        yield from pause_for_id()
        group, response = describe(DescribedGroup, group_id, ConsumerGroup, request, exchange, assignor_name="")
        if group is not None:
            response.assignor_name = group.preferred_assignor() or exchange.engine.groups.consumers.default_assignor()
        known[group_id] = response
        # When a member changes, a new object replaces the old object, so the objects in this list stay the same.
        held = [(group.members[each], group.targets.get(each, NOTHING)) for each in group.in_order()] if group else []
        for member, target in held:
            yield from pause(MEMBER + len(member.topics) + len(member.assigned) + len(target))
            response.members.append(_member(member, target, exchange))
    if len(known) < len(request.group_ids):  # a response that repeats groups may be long, so a thread encodes it
        yield None
    # As in Kafka, empty ids come first: Kafka refuses an empty id at once, but asks a coordinator about every other id.
    return ConsumerGroupDescribeResponse(groups=[known[group_id] for group_id in sorted(request.group_ids, key=bool)])


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
