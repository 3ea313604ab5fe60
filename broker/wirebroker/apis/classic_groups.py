"""JoinGroup, versions 0–9: become, or remain, a member of a classic group.

The response waits until the group's join phase is over. From version 4 a new member first gets MEMBER_ID_REQUIRED and its
member id. From version 5 a member may be static (group.instance.id). From version 9 the response may tell a returning static
leader to keep the assignment. In Kafka 2.5 to 3.0, if the group has a static member, a leader that joins with a version before
5 gets UNSUPPORTED_VERSION, because the response cannot name the member's instance.

SyncGroup, versions 0–5: a member gets its assignment; the leader sends all assignments.

The response waits for the leader. From version 5 the request names the protocol, which must be the protocol of the group.

Heartbeat, versions 0–4: a member keeps its session alive, and learns whether it must rejoin.

LeaveGroup, versions 0–5: removes one member. From version 3 on it removes several members, each with its own error.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafkawire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.groups.roster import Joined, JoinRequest, Synced
from wirebroker.core.releases.changes import ByRelease, since, until

NO_GENERATION = ByRelease(0).then("2.3", -1, "JoinGroup with an error returns generation −1 instead of 0")
LEAVES_OUT_INSTANCES = until(
    "2.5", "if a group has static members, a JoinGroup of its leader before version 5 gets error 35"
).then("3.3", True, "if a group has static members, a JoinGroup of its leader before version 5 is no longer refused")
COUNTS_REFUSED_LEAVERS = since("3.4", "if LeaveGroup before version 3 is refused as a whole, it gets error 35").then(
    "3.5", False, "if LeaveGroup before version 3 is refused as a whole, it gets the error of the refusal instead of 35"
)

MAY_LACK_PROTOCOL = 7
"""The first version whose response has null instead of an empty protocol (JoinGroupResponse)."""
NAMES_INSTANCES = 5
"""The first version whose response names the instances of static members."""


def join_group(request: JoinGroupRequest, exchange: Exchange) -> Steps:
    """Let the member join, and respond now or later."""
    groups = exchange.engine.groups
    requested = JoinRequest(
        exchange.node_id,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        exchange.client_id or "",
        f"/{exchange.connection.client_host}",
        request.protocol_type,
        _protocols(request),
        request.rebalance_timeout_ms if exchange.version >= 1 else request.session_timeout_ms,
        request.session_timeout_ms,
        exchange.version >= 4,
        exchange.version >= 9,
        exchange.engine.authorizer.sees_topic(exchange.connection),
    )
    return exchange.respond_by(
        lambda respond: groups.join(requested, lambda joined: respond(_joined(joined, exchange)), exchange.now)
    )


def _protocols(request: JoinGroupRequest) -> list[tuple[str, bytes]]:
    """Returns the protocols without repetitions. Each protocol keeps its first place.

    Kafka counts a repeated protocol as several votes, and then the group never finishes its rebalance.
    """
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return list(named.items())


def _joined(joined: Joined, exchange: Exchange) -> JoinGroupResponse:
    named = any(instance_id is not None for _, instance_id, _ in joined.members)
    if named and exchange.version < NAMES_INSTANCES and not LEAVES_OUT_INSTANCES.of(exchange.cluster.configs.release):
        joined = Joined(ErrorCode.UNSUPPORTED_VERSION)
    protocol = joined.protocol or (None if exchange.version >= MAY_LACK_PROTOCOL else "")
    generation = joined.generation
    if joined.code and generation < 0:
        generation = NO_GENERATION.of(exchange.cluster.configs.release)
    return JoinGroupResponse(
        error_code=joined.code or ErrorCode.NONE,
        generation_id=generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in joined.members
        ],
    )


def sync_group(request: SyncGroupRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    unnamed = request.protocol_type is None or request.protocol_name is None
    if exchange.version >= 5 and unnamed:
        return _synced(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if error := groups.membership_error(request.group_id, exchange.node_id):
        return _synced(Synced(error))
    assignments = [(given.member_id, given.assignment) for given in request.assignments]
    return (yield from exchange.respond_by(
        lambda respond: groups.classic.sync(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id,
            request.protocol_type, request.protocol_name, assignments, lambda synced: respond(_synced(synced)),
            exchange.now,
        )
    ))  # fmt: skip


def _synced(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.code, protocol_type=synced.protocol_type, protocol_name=synced.protocol,
        assignment=synced.assignment,
    )  # fmt: skip


def heartbeat(request: HeartbeatRequest, exchange: Exchange) -> HeartbeatResponse:
    groups = exchange.engine.groups
    code = groups.membership_error(request.group_id, exchange.node_id) or groups.classic.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, exchange.now
    )
    return HeartbeatResponse(error_code=code)


def leave_group(request: LeaveGroupRequest, exchange: Exchange) -> Steps:
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
