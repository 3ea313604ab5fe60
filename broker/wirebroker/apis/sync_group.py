"""SyncGroup, versions 0–5: a member gets its assignment; the leader sends all assignments.

The response waits for the leader. From version 5 the request names the protocol, which must be the protocol of the group.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.core.groups.roster import Synced


def handle(request: SyncGroupRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    unnamed = request.protocol_type is None or request.protocol_name is None
    if exchange.version >= 5 and unnamed:
        return _response(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if error := groups.membership_error(request.group_id, exchange.node_id):
        return _response(Synced(error))
    assignments = [(given.member_id, given.assignment) for given in request.assignments]
    return (yield from exchange.respond_by(
        lambda respond: groups.classic.sync(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id,
            request.protocol_type, request.protocol_name, assignments, lambda synced: respond(_response(synced)),
            exchange.now,
        )
    ))  # fmt: skip


def _response(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.code, protocol_type=synced.protocol_type, protocol_name=synced.protocol,
        assignment=synced.assignment,
    )  # fmt: skip
