"""Trace rows as tuples of their values, for readers that take thousands of rows a second, such as the live page.

A tuple's first value is the row's event; `COLUMNS` names the other values. Rows of the events in `FREQUENT` have no text,
because the text takes longer to make than all other values. The reader makes the text itself.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from wirebroker.trace.rows import EVENTS, Row

Brief = tuple[Any, ...]
FREQUENT = ("produce", "shadow", "reply", "fetch", "request")
"""The events that occur in every exchange."""
PARTS = "parts"
"""The name of the column with the row's text."""
_NAMES = {event: row.__struct_fields__ for event, row in EVENTS.items()}
COLUMNS = {event: names if event in FREQUENT else (*names, PARTS) for event, names in _NAMES.items()}
"""The names of the values that follow the event in a tuple."""
_VALUES: dict[type[Row], Callable[[Row], Brief]] = {row: attrgetter("event", *_NAMES[event]) for event, row in EVENTS.items()}


def brief(row: Row) -> Brief:
    values = _VALUES[type(row)](row)
    return values if row.event in FREQUENT else (*values, row.parts())
