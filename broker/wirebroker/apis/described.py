"""The common part of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: these APIs refuse a group for the same
reasons, and describe a group with the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from kafkawire.errors import ErrorCode
from wirebroker.apis.exchange import Exchange
from wirebroker.apis.groups import all_group_operations
from wirebroker.common.slices import IDS, pauses
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.refusals import Refusal

G = TypeVar("G", bound=ModernGroup[Any, Any])
D = TypeVar("D")
Slices = Generator[None, Any, None]


def described(
    made: Callable[..., D], kind: type[G], fill: Callable[[G, D], Slices], request: Any, exchange: Exchange,
    messages: Mapping[ErrorCode, str] | None = None, *, enabled: bool = True,
) -> Generator[None, Any, list[D]]:  # fmt: skip
    """Returns the response's entry for each group that the request names. `fill` adds the group's members to the entry, and the
    fields that only one of the three APIs has. `messages` are told with errors of the coordinator.

    If the request names a group several times, the response repeats one entry of the group.
    """
    if not enabled:
        return [made(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id=group_id) for group_id in request.group_ids]
    pause, known = pauses(IDS), dict[str, D]()
    for group_id in dict.fromkeys(request.group_ids):
        yield from pause()
        group = _find(group_id, kind, exchange, messages or {})
        if isinstance(group, Refusal):
            known[group_id] = made(error_code=group.code, error_message=group.message, group_id=group_id)
            continue
        known[group_id] = entry = made(
            error_code=ErrorCode.NONE, group_id=group_id, group_state=group.state_name, group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            **({"authorized_operations": all_group_operations(exchange)} if request.include_authorized_operations else {}),
        )  # fmt: skip
        yield from fill(group, entry)
    if len(known) < len(request.group_ids):  # a response that repeats groups may be long, so a thread encodes it
        yield None
    # As in Kafka, empty ids come first: Kafka refuses an empty id at once, but asks a coordinator about every other id.
    return [known[group_id] for group_id in sorted(request.group_ids, key=bool)]


def _find(group_id: str, kind: type[G], exchange: Exchange, messages: Mapping[ErrorCode, str]) -> G | Refusal:
    """Returns the group, if the group has this type and this broker is the group's coordinator."""
    groups = exchange.engine.groups
    if error := groups.membership_error(group_id, exchange.node_id):
        return Refusal(error, messages.get(error) if group_id else None)
    group = groups.groups.get(group_id)
    if isinstance(group, kind):
        return group
    why = "not found" if group is None else f"is not a {kind.kind} group"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
