"""JoinGroup, versions 0–9: become, or remain, a member of a classic group.

The response waits until the group's join phase is over. From version 4 a new member first gets MEMBER_ID_REQUIRED and its
member id. From version 5 a member may be static (group.instance.id). From version 9 the response may tell a returning static
leader to keep the assignment. In Kafka 2.5 to 3.0, if the group has a static member, a leader that joins with a version before
5 gets UNSUPPORTED_VERSION, because the response cannot name the member's instance.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.core.groups.roster import Joined, JoinRequest
from wirebroker.core.releases.changes import ByRelease, until

NO_GENERATION = ByRelease(0).then("2.3", -1, "JoinGroup with an error returns generation −1 instead of 0")
LEAVES_OUT_INSTANCES = until(
    "2.5", "if a group has static members, a JoinGroup of its leader before version 5 gets error 35"
).then("3.3", True, "if a group has static members, a JoinGroup of its leader before version 5 is no longer refused")

MAY_LACK_PROTOCOL = 7
"""The first version whose response has null instead of an empty protocol (JoinGroupResponse)."""
NAMES_INSTANCES = 5
"""The first version whose response names the instances of static members."""


def handle(request: JoinGroupRequest, exchange: Exchange) -> Steps:
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
        lambda respond: groups.join(requested, lambda joined: respond(_response(joined, exchange)), exchange.now)
    )


def _protocols(request: JoinGroupRequest) -> list[tuple[str, bytes]]:
    """Returns the protocols without repetitions. Each protocol keeps its first place.

    Kafka counts a repeated protocol as several votes, and then the group never finishes its rebalance.
    """
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return list(named.items())


def _response(joined: Joined, exchange: Exchange) -> JoinGroupResponse:
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
