"""ShareGroupHeartbeat, version 1: join, stay in, and leave a share group (KIP-932).

A member chooses its own id. A member joins with epoch 0 and leaves with −1. The response has the member's epoch. If the
member's assignment has changed, the response also has the assignment. A group's first responses assign no partitions, because
the share state of the partitions must be initialized first.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.share_acknowledge import is_member_id
from wirebroker.core.groups.share_heartbeats import ShareHeartbeat
from wirebroker.core.refusals import Refusal


def handle(request: ShareGroupHeartbeatRequest, exchange: Exchange) -> Steps:
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
        held = [TopicPartitions(topic_id=topic_id, partitions=list(each)) for topic_id, each in result.assigned.items()]
        assignment = Assignment(topic_partitions=held)
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=result.member_id, member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval, assignment=assignment,
    )  # fmt: skip
