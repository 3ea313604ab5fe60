"""LeaveGroup, versions 0–5: one member, or from version 3 several, each answered on its own."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from wirebroker.exchange import Exchange


def handle(request: LeaveGroupRequest, exchange: Exchange) -> LeaveGroupResponse:
    """Let the members go."""
    groups = exchange.engine.groups
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if fault := groups.here(request.group_id, exchange.node_id):
        return LeaveGroupResponse(error_code=fault)
    if exchange.version < 3:
        return LeaveGroupResponse(error_code=groups.leave(request.group_id, request.member_id, None, exchange.now))
    if request.group_id not in groups.groups:
        return LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    answers = [
        MemberResponse(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=groups.leave(request.group_id, member.member_id, member.group_instance_id, exchange.now),
        )
        for member in request.members
    ]
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers)
