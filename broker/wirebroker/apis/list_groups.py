"""ListGroups, versions 0–5: the groups that this broker coordinates, by state (version 4) and type (5) if asked."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from wirebroker.exchange import Exchange

CLASSIC = "classic"


def handle(request: ListGroupsRequest, exchange: Exchange) -> ListGroupsResponse:
    """List the groups."""
    states = {state.lower().strip() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = []
    for group_id, group in exchange.engine.groups.groups.items():
        if exchange.engine.groups.here(group_id, exchange.node_id):
            continue
        if states and group.state.value.lower() not in states:
            continue
        if types and CLASSIC not in types:
            continue
        listed.append(
            ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
        )
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=listed)
