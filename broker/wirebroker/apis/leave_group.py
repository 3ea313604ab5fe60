"""LeaveGroup, versions 0–5: removes one member. From version 3 on it removes several members, each with its own error."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.releases.changes import since

COUNTS_REFUSED_LEAVERS = since("3.4", "LeaveGroup before version 3 that is refused as a whole gets error 35").then(
    "3.5", False, "LeaveGroup before version 3 is refused with the right error"
)


def handle(request: LeaveGroupRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if error := groups.membership_error(request.group_id, exchange.node_id):
        mistakes = exchange.version < 3 and COUNTS_REFUSED_LEAVERS.of(exchange.cluster.configs.release)
        return LeaveGroupResponse(error_code=ErrorCode.UNSUPPORTED_VERSION if mistakes else error)
    leaving = [(member.member_id, member.group_instance_id) for member in request.members]
    if exchange.version < 3:
        leaving = [(request.member_id, None)]
    codes = groups.classic.leave(request.group_id, leaving, exchange.now)
    if isinstance(codes, ErrorCode):
        return LeaveGroupResponse(error_code=codes)
    if exchange.version < 3:
        return LeaveGroupResponse(error_code=codes[0])
    pause = pauses()
    responses = []
    for (member_id, instance_id), code in zip(leaving, codes, strict=True):
        yield from pause()
        responses.append(MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code))
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=responses)
