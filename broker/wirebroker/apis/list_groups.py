"""ListGroups, versions 0–5: the groups that this broker coordinates, optionally by state (version 4) and type (5)."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.java_texts import trim
from wirebroker.common.slices import IDS, pauses
from wirebroker.core.groups.streams_group import NOT_READY
from wirebroker.core.releases.changes import since

IGNORES_CASE_OF_STATES = since("3.8", "ListGroups ignores the case of the states in its filter", "KIP-848")
TRIMS_STATES = since("4.0", "ListGroups ignores blanks around the states in its filter", "KIP-848")

_FILTERED = {NOT_READY: "not_ready"}
"""The names of some states in requests. Every other state has its own name in lower case."""


def handle(request: ListGroupsRequest, exchange: Exchange) -> Steps:
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
