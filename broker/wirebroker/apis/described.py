"""The common part of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: these APIs refuse a group for the same
reasons, and describe a group with the same fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kafkawire.errors import ErrorCode
from wirebroker.apis.describe_groups import all_group_operations
from wirebroker.apis.exchange import Exchange
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.refusals import Refusal

G = TypeVar("G", bound=ModernGroup[Any, Any])
D = TypeVar("D")


def describe(
    made: Callable[..., D], group_id: str, kind: type[G], request: Any, exchange: Exchange, **fields: Any
) -> tuple[G | None, D]:
    """Returns two values: the group (None if it is not found), and the group's entry in the response, which has no members yet.
    `fields` are the fields that only some of the three APIs have."""
    group = _find(group_id, kind, exchange)
    if isinstance(group, Refusal):
        return None, refused(made, group_id, group, **fields)
    if request.include_authorized_operations:
        fields["authorized_operations"] = all_group_operations(exchange)
    described = made(
        error_code=ErrorCode.NONE, group_id=group_id, group_state=group.state_name, group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch, members=[], **fields,
    )  # fmt: skip
    return group, described


def _find(group_id: str, kind: type[G], exchange: Exchange) -> G | Refusal:
    """Returns the group, if the group has this type and this broker is the group's coordinator."""
    groups = exchange.engine.groups
    if error := groups.membership_error(group_id, exchange.node_id):
        return Refusal(error)
    group = groups.groups.get(group_id)
    if isinstance(group, kind):
        return group
    why = "not found" if group is None else f"is not a {kind.kind} group"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")


def refused(made: Callable[..., D], group_id: str, why: Refusal, **fields: Any) -> D:
    """Returns the group's entry in the response if the group cannot be described."""
    return made(
        error_code=why.code, error_message=why.message, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0,
        members=[], **fields,
    )  # fmt: skip
