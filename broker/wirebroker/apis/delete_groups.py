"""DeleteGroups, versions 0–3: deletes groups without members, each with its own result.

Version 3 has a message for a group whose topology description could not be deleted. In wirebroker this error does not happen.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, pauses


def handle(request: DeleteGroupsRequest, exchange: Exchange) -> Steps:
    pause = pauses(IDS)
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        yield from pause()
        results.append(DeletableGroupResult(group_id=group_id, error_code=(yield from _delete(group_id, exchange))))
    return DeleteGroupsResponse(results=results)


def _delete(group_id: str, exchange: Exchange) -> Generator[None, Any, ErrorCode]:
    groups = exchange.engine.groups
    error = groups.coordinator_error(group_id, exchange.node_id)
    return error or (yield from groups.delete_group(group_id, exchange.now))
