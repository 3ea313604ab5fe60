"""DescribeGroups, versions 0–6.

Members' metadata is shown while the group is stable. A missing group has the state "Dead", and so has a consumer group of
KIP-848. From version 6 on, such a group also gets GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, MEMBERS, pauses
from wirebroker.core.acls import NO_OPERATIONS, ResourceType, bits, operations_on
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.roster import Member
from wirebroker.core.groups.states import ClassicGroupState
from wirebroker.core.releases.changes import ByRelease, since, until

TELLS_ASSIGNMENTS = since("4.0", "DescribeGroups shows assignments also while a group rebalances", "KIP-848")
REPEATS_DESCRIBED_GROUPS = since("2.3", "DescribeGroups describes a group twice if the request names the group twice")
NAME_OF_SYNCING = ByRelease("AwaitingSync").then(
    "1.1", "CompletingRebalance", "the state AwaitingSync of a group is called CompletingRebalance"
)
DESCRIBES_METADATA = until("2.3", "DescribeGroups shows the assignments of members as their metadata").then(
    "2.4", True, "DescribeGroups shows the metadata of members, not their assignments"
)


def all_group_operations(exchange: Exchange) -> int:
    """Returns all operations that exist on a group in this release, as a bit field for a response."""
    return bits(operations_on(ResourceType.GROUP, exchange.cluster.configs.release))


def handle(request: DescribeGroupsRequest, exchange: Exchange) -> Steps:
    """Describe each group. As in Kafka, if the request names a group several times, the response repeats one description of the
    group."""
    unasked = NO_OPERATIONS.of(exchange.cluster.configs.release)
    operations = all_group_operations(exchange) if request.include_authorized_operations else unasked
    pause_for_id, pause = pauses(IDS), pauses(MEMBERS)
    known: dict[str, DescribedGroup] = {}
    for group_id in dict.fromkeys(request.groups):
        yield from pause_for_id()
        group, response = _describe(group_id, exchange)
        response.authorized_operations = unasked if response.error_code else operations
        known[group_id] = response
        if group is not None:
            protocol, stable = group.protocol, group.state is ClassicGroupState.STABLE
            release = exchange.cluster.configs.release
            tells = stable or TELLS_ASSIGNMENTS.of(release)
            for member in list(group.members.values()):
                yield from pause()
                described = _member(member, protocol, stable, tells)
                if not DESCRIBES_METADATA.of(release):
                    described.member_metadata = described.member_assignment
                response.members.append(described)
    if not REPEATS_DESCRIBED_GROUPS.of(exchange.cluster.configs.release):
        return DescribeGroupsResponse(groups=list(known.values()))
    if len(known) < len(request.groups):  # a response that repeats groups may be long, so a thread encodes it
        yield None
    return DescribeGroupsResponse(groups=[known[group_id] for group_id in request.groups])


def _describe(group_id: str, exchange: Exchange) -> tuple[Group | None, DescribedGroup]:
    """Returns two values: the group (None if it is not found), and the group's entry in the response, which has no members
    yet."""
    groups = exchange.engine.groups
    if error := groups.coordinator_error(group_id, exchange.node_id):
        return None, _without_members(group_id, error, "")
    group = groups.groups.get(group_id)
    if not isinstance(group, Group):
        code = ErrorCode.GROUP_ID_NOT_FOUND if exchange.version >= 6 else ErrorCode.NONE
        described = _without_members(group_id, code, ClassicGroupState.DEAD.value)
        why = "not found" if group is None else "is not a classic group"
        described.error_message = f"Group {group_id} {why}." if code else None
        return None, described
    described = _without_members(group_id, ErrorCode.NONE, group.state.value)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        described.group_state = NAME_OF_SYNCING.of(exchange.cluster.configs.release)
    described.protocol_type = group.protocol_type or ""
    if group.state is ClassicGroupState.STABLE:
        described.protocol_data = group.protocol or ""
    return group, described


def _without_members(group_id: str, code: ErrorCode, state: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=code, group_id=group_id, group_state=state, protocol_type="", protocol_data="", members=[],
        authorized_operations=0,
    )  # fmt: skip


def _member(member: Member, protocol: str | None, stable: bool, tells: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if stable else b"",
        member_assignment=member.assignment if tells else b"",
    )
