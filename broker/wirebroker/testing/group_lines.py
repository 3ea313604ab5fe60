"""Describes the state of groups for the report of a failed test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkawire.compression import CodecMissing
from wirebroker.audit.content import head
from wirebroker.testing import states
from wirebroker.testing.goals import lag_of
from wirebroker.trace.layout import PLACE

if TYPE_CHECKING:
    from wirebroker.engine.engine import Engine

MOST_NAMES = 4
"""A line names at most this many partitions or members."""
UNREADABLE = (OSError, ValueError, CodecMissing)
"""The errors of a log that cannot be read: the data directory may be closed, damaged or gone, or a codec may be missing."""


def group_lines(engine: Engine) -> list[str]:
    """Returns a line for each group: its state, its members with their partitions, and its offsets with the lag."""
    return [_line(engine, each) for each in states.groups(engine).values()]


def _line(engine: Engine, group: states.Group) -> str:
    members = [
        f"{head(each.client_id.encode())} has {listed(_partitions(each.assignment or ())) or 'no partition'}"
        for each in group.members
    ]
    offsets = []
    for each in group.offsets:
        lag = 0
        with suppress(*UNREADABLE):
            lag = lag_of(engine, each.topic, each.partition, each.offset)
        note = " pending" if each.pending else f", {lag} behind" if lag else ""
        offsets.append(f"{each.topic}-{each.partition} at {each.offset}{note}")
    parts = [f"{group.state}, {group.type}, generation {group.generation}", listed(members) or "no members"]
    parts += [f"committed {listed(offsets)}"] if offsets else []
    return f"{head(group.group_id.encode()):<{PLACE}} {'; '.join(parts)}"


def _partitions(assignment: Iterable[states.Partitions]) -> list[str]:
    return [f"{part.topic}-{index}" for part in assignment for index in part.partitions]


def listed(names: Sequence[str]) -> str:
    """Returns the first names, and the number of further names."""
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
