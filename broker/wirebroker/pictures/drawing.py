"""Every kind of picture by its name, drawn from the rows of a trace with their numbers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wirebroker.pictures.marks import NARROWEST, WIDEST, Picture
from wirebroker.pictures.overview import overview
from wirebroker.pictures.sequence import sequence
from wirebroker.trace.rows import Row

Numbered = tuple[int, Row]
MOST_LINES = 400
"""The largest number of lines of a sequence diagram."""
LATEST = 400
"""The number of rows that are drawn if nobody asks for more."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to see: rows by their numbers (0: from the first, to the last), a width in px, and the subject."""

    first: int = 0
    last: int = 0
    width: int = 1000
    lines: int = 60
    of: str = ""
    """the partition, group or producer, "" for the one with the most rows"""


def _sequence(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return sequence(_within(rows, wish), wish.width, wish.lines)


def _overview(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return overview(rows, wish.width, wish.first, wish.last)


ALL: dict[str, Callable[[Sequence[Numbered], Wish], Picture]] = {"sequence": _sequence, "overview": _overview}
"""The kinds in `PICTURES`, and the strip that shows where a window lies."""


def draw(kind: str, rows: Sequence[Numbered], wish: Wish) -> Picture:
    """Draws a picture of numbered rows, which are in the order of their numbers. Raises KeyError for an unknown kind."""
    width = min(max(wish.width, NARROWEST), WIDEST)
    return ALL[kind](rows, replace(wish, width=width, lines=min(max(wish.lines, 5), MOST_LINES)))


def _within(rows: Sequence[Numbered], wish: Wish) -> Sequence[Numbered]:
    last = bisect_right(rows, wish.last, key=lambda row: row[0]) if wish.last else len(rows)
    return rows[bisect_left(rows, wish.first, hi=last, key=lambda row: row[0]) : last]
