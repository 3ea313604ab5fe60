"""ConsumerGroupHeartbeat, versions 0–1: join, stay in, and leave a consumer group (KIP-848).

A member joins with epoch 0 and leaves with −1. A static member that may return leaves with −2. The response has the member's
epoch. If the member's assignment has changed, the response also has the assignment. From version 1 a member chooses its own id
and may subscribe by regular expression. After FENCED_MEMBER_EPOCH a member must give up all partitions and join again.

ConsumerGroupDescribe, versions 0–1: the members of consumer groups (KIP-848), with assignments and targets.

From version 1 the response has each member's protocol. Classic groups are not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.errors import ErrorCode
from kafkawire.messages import consumer_group_heartbeat as beats
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
from wirebroker.core.groups.consumer_heartbeats import GroupHeartbeat
from wirebroker.core.groups.consumer_member import ConsumerMember
from wirebroker.core.groups.modern_heartbeats import HeartbeatResult
from wirebroker.core.refusals import Refusal

CLASSIC, CONSUMER = 0, 1


def consumer_group_heartbeat(request: beats.ConsumerGroupHeartbeatRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if not groups.consumers.enabled:
        return exchange.refused(ErrorCode.UNSUPPORTED_VERSION)
    claimed = request.topic_partitions
    requested = GroupHeartbeat(
        request.group_id, request.member_id, request.member_epoch, request.instance_id, request.rack_id,
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.subscribed_topic_regex,
        request.server_assignor, None if claimed is None else [(each.topic_id, each.partitions) for each in claimed],
        exchange.client_id or "", f"/{exchange.connection.client_host}",
        exchange.engine.authorizer.sees_topic(exchange.connection),
    )  # fmt: skip
    if error := groups.consumers.request_error(requested, exchange.version):
        return exchange.refused(*error)
    if code := groups.coordinator_error(request.group_id, exchange.node_id):
        return exchange.refused(code)
    result = yield from groups.consumers.heartbeat(requested, exchange.now)
    return exchange.refused(*result) if isinstance(result, Refusal) else _response(result)


def _response(beat: HeartbeatResult) -> beats.ConsumerGroupHeartbeatResponse:
    assignment = None
    if beat.assigned is not None:
        assignment = beats.Assignment(
            topic_partitions=[
                beats.ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in beat.assigned.items()
            ]
        )
    return beats.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=beat.member_id, member_epoch=beat.epoch,
        heartbeat_interval_ms=beat.interval, assignment=assignment,
    )  # fmt: skip


def consumer_group_describe(request: ConsumerGroupDescribeRequest, exchange: Exchange) -> Steps:
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
