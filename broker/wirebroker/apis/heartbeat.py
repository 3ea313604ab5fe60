"""Heartbeat, versions 0–4: a member keeps its session alive, and learns whether it must rejoin."""

from __future__ import annotations

from kafkawire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirebroker.apis.exchange import Exchange


def handle(request: HeartbeatRequest, exchange: Exchange) -> HeartbeatResponse:
    groups = exchange.engine.groups
    code = groups.membership_error(request.group_id, exchange.node_id) or groups.classic.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, exchange.now
    )
    return HeartbeatResponse(error_code=code)
