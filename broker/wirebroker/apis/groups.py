"""ListGroups, versions 0–5: the groups that this broker coordinates, optionally by state (version 4) and type (5).

DescribeGroups, versions 0–6.

Members' metadata is shown while the group is stable. A missing group has the state "Dead", and so has a consumer group of
KIP-848. From version 6 on, such a group also gets GROUP_ID_NOT_FOUND.

DeleteGroups, versions 0–3: deletes groups without members, each with its own result.

Version 3 has a message for a group whose topology description could not be deleted. In wirebroker this error does not happen.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafkawire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkawire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.java_texts import trim
from wirebroker.common.slices import IDS, MEMBERS, pauses
from wirebroker.core.acls import NO_OPERATIONS, ResourceType, bits, operations_on
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.roster import Member
from wirebroker.core.groups.states import ClassicGroupState
from wirebroker.core.groups.streams_group import NOT_READY
from wirebroker.core.releases.changes import ByRelease, since, until

IGNORES_CASE_OF_STATES = since("3.8", "ListGroups ignores the case of the states in its filter", "KIP-848")
TRIMS_STATES = since("4.0", "ListGroups ignores blanks around the states in its filter", "KIP-848")

_FILTERED = {NOT_READY: "not_ready"}
"""The names of some states in requests. Every other state has its own name in lower case."""

TELLS_ASSIGNMENTS = since("4.0", "DescribeGroups shows assignments also while a group rebalances", "KIP-848")
REPEATS_DESCRIBED_GROUPS = since("2.3", "DescribeGroups describes a group twice if the request names the group twice")
NAME_OF_SYNCING = ByRelease("AwaitingSync").then(
    "1.1", "CompletingRebalance", "the state AwaitingSync of a group is called CompletingRebalance"
)
DESCRIBES_METADATA = until("2.3", "DescribeGroups shows the assignments of members in place of their metadata").then(
    "2.4", True, "DescribeGroups shows the metadata of members again"
)


def list_groups(request: ListGroupsRequest, exchange: Exchange) -> Steps:
    release = exchange.cluster.configs.release
    states = {trim(state.lower()) if TRIMS_STATES.of(release) else state.lower() for state in request.states_filter}
    exact = None if IGNORES_CASE_OF_STATES.of(release) else set(request.states_filter)
    types = {kind.lower() for kind in request.types_filter}
    pause = pauses(IDS)
    listed = []
    for group_id, group in list(exchange.engine.groups.groups.items()):
        yield from pause()
        if exchange.engine.groups.coordinator_error(group_id, exchange.node_id):
            continue
        kind, state = group.kind, group.state_name
        if exact and state not in exact:
            continue
        if (states and _FILTERED.get(state, state.lower()) not in states) or (types and kind not in types):
            continue
        listed.append(
            ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=state,
                group_type=kind,
            )
        )
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed)


def all_group_operations(exchange: Exchange) -> int:
    """Returns all operations that exist on a group in this release, as a bit field for a response."""
    return bits(operations_on(ResourceType.GROUP, exchange.cluster.configs.release))


def describe_groups(request: DescribeGroupsRequest, exchange: Exchange) -> Steps:
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


def delete_groups(request: DeleteGroupsRequest, exchange: Exchange) -> Steps:
    pause = pauses(IDS)
    groups, results = exchange.engine.groups, []
    for group_id in dict.fromkeys(request.groups_names):
        yield from pause()
        error = groups.coordinator_error(group_id, exchange.node_id)
        error = error or (yield from groups.delete_group(group_id, exchange.now))
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=results)
