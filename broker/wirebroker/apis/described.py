"""Finds the groups of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe.

These APIs refuse a group for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kafkawire.errors import ErrorCode
from wirebroker.apis.exchange import Exchange
from wirebroker.core.groups.modern import ModernGroup

G = TypeVar("G", bound=ModernGroup[Any, Any])
D = TypeVar("D")


class NoGroup(NamedTuple):
    """The reason why a group is not described."""

    code: ErrorCode
    message: str | None = None


def find(group_id: str, kind: type[G], exchange: Exchange) -> G | NoGroup:
    """Returns the group if it has this type and this broker coordinates it."""
    groups = exchange.engine.groups
    if error := groups.membership_error(group_id, exchange.node_id):
        return NoGroup(error)
    group = groups.groups.get(group_id)
    if isinstance(group, kind):
        return group
    why = "not found" if group is None else f"is not a {kind.kind} group"
    return NoGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")


def refused(described: Callable[..., D], group_id: str, why: NoGroup, **fields: Any) -> D:
    """Returns the response entry for a group that is not described; `fields` exist only in some APIs."""
    return described(
        error_code=why.code, error_message=why.message, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0,
        members=[], **fields,
    )  # fmt: skip
