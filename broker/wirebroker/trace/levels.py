"""How much is traced: each level has the events of those before it and some more, and what is not traced costs nothing."""

from __future__ import annotations

LEVELS: dict[str, tuple[str, ...]] = {
    "off": (),
    "verdicts": ("produce", "fault"),
    "changes": ("connection", "topic", "leader", "isr", "broker", "producer", "transaction", "group", "retention", "restart"),
    "exchanges": ("reply", "fetch"),
    "all": ("request",),
}
"""Level to the events that it adds."""


def includes(level: str, other: str) -> bool:
    """Whether a level traces what another one does. ValueError for a level that does not exist."""
    order = list(LEVELS)
    for name in (level, other):
        if name not in LEVELS:
            raise ValueError(f"the trace is {', '.join(order[:-1])} or {order[-1]}, not {name!r}")
    return order.index(level) >= order.index(other)
