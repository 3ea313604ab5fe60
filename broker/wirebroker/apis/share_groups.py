"""ShareGroupHeartbeat, version 1: join, stay in, and leave a share group (KIP-932).

A member chooses its own id. A member joins with epoch 0 and leaves with −1. The response has the member's epoch. If the
member's assignment has changed, the response also has the assignment. A group's first responses assign no partitions, because
the share state of the partitions must be initialized first.

ShareGroupDescribe, version 1: the members of share groups, with their assignments. Groups of other types are not found.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages import share_group_heartbeat as beats
from kafkawire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from wirebroker.apis.described import Slices, described
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.share_acknowledge import is_member_id
from wirebroker.common.slices import MEMBER, weighted_pauses
from wirebroker.core.groups.share_group import ShareGroup, ShareMember
from wirebroker.core.groups.share_heartbeats import ASSIGNOR, ShareHeartbeat
from wirebroker.core.refusals import MESSAGES, Refusal


def share_group_heartbeat(request: beats.ShareGroupHeartbeatRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if not is_member_id(request.member_id):
        return exchange.refused(ErrorCode.INVALID_REQUEST)
    requested = ShareHeartbeat(
        request.group_id, request.member_id, request.member_epoch, request.rack_id, request.subscribed_topic_names,
        exchange.client_id or "", f"/{exchange.connection.client_host}",
    )  # fmt: skip
    if error := groups.shares.request_error(requested):
        return exchange.refused(*error)
    if code := groups.coordinator_error(request.group_id, exchange.node_id):
        return exchange.refused(code)
    result = yield from groups.shares.heartbeat(requested, exchange.now)
    if isinstance(result, Refusal):
        return exchange.refused(*result)
    assignment = None
    if result.assigned is not None:
        held = [beats.TopicPartitions(topic_id=topic_id, partitions=list(each)) for topic_id, each in result.assigned.items()]
        assignment = beats.Assignment(topic_partitions=held)
    return beats.ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=result.member_id, member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval, assignment=assignment,
    )  # fmt: skip


def share_group_describe(request: ShareGroupDescribeRequest, exchange: Exchange) -> Steps:
    pause = weighted_pauses()

    def fill(group: ShareGroup, entry: DescribedGroup) -> Slices:
        entry.assignor_name = ASSIGNOR
        for member in list(group.members.values()):
            yield from pause(MEMBER + len(member.topics) + len(member.assigned))
            entry.members.append(_member(member, exchange))

    entries = yield from described(DescribedGroup, ShareGroup, fill, request, exchange, MESSAGES)
    return ShareGroupDescribeResponse(groups=entries)


def _member(member: ShareMember, exchange: Exchange) -> Member:
    known = exchange.cluster.topics_by_id
    held = [
        TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=list(indexes))
        for topic_id, indexes in member.assigned.items()
        if topic_id in known
    ]
    return Member(
        member_id=member.member_id, rack_id=member.rack_id, member_epoch=member.epoch, client_id=member.client_id,
        client_host=member.client_host, subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(topic_partitions=held),
    )  # fmt: skip
