"""ConsumerGroupHeartbeat, versions 0–1: join, stay in, and leave a consumer group (KIP-848).

A member joins with epoch 0 and leaves with −1. A static member that may return leaves with −2. The response has the member's
epoch. If the member's assignment has changed, the response also has the assignment. From version 1 a member chooses its own id
and may subscribe by regular expression. After FENCED_MEMBER_EPOCH a member must give up all partitions and join again.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.core.groups.consumer_heartbeats import GroupHeartbeat
from wirebroker.core.groups.modern_heartbeats import HeartbeatResult
from wirebroker.core.refusals import Refusal


def handle(request: ConsumerGroupHeartbeatRequest, exchange: Exchange) -> Steps:
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


def _response(beat: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if beat.assigned is not None:
        assignment = Assignment(
            topic_partitions=[
                ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in beat.assigned.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=beat.member_id, member_epoch=beat.epoch,
        heartbeat_interval_ms=beat.interval, assignment=assignment,
    )  # fmt: skip
