"""The levels of the trace. Each level adds events to the previous level. An event that the chosen level does not include costs
nothing."""

from __future__ import annotations

from typing import Literal

Level = Literal["off", "verdicts", "changes", "exchanges", "all"]
LEVELS: dict[str, tuple[str, ...]] = {
    "off": (),
    "verdicts": ("produce", "shadow", "fault", "unsupported", "authentication", "authorization", "throttle", "run", "test"),
    "changes": (
        "connection",
        "topic",
        "leader",
        "isr",
        "broker",
        "upgrade",
        "feature",
        "producer",
        "transaction",
        "group",
        "share",
        "telemetry",
        "retention",
        "restart",
    ),
    "exchanges": ("reply", "fetch"),
    "all": ("request",),
}
"""For each level, the events that it adds."""


def includes(level: str, other: str) -> bool:
    """Tells whether a level has all events of another level. Raises ValueError for a level that does not exist."""
    order = list(LEVELS)
    for name in (level, other):
        if name not in LEVELS:
            raise ValueError(f"the level of the trace must be {', '.join(order[:-1])} or {order[-1]}, not {name!r}")
    return order.index(level) >= order.index(other)
