"""Draws each kind of picture from numbered rows of a trace."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from wirebroker.trace.rows import Row
from wirebroker_tools.pictures.groups import groups
from wirebroker_tools.pictures.log import log
from wirebroker_tools.pictures.marks import NARROWEST, WIDEST, Picture
from wirebroker_tools.pictures.overview import overview
from wirebroker_tools.pictures.sequence import sequence
from wirebroker_tools.pictures.windows import windows

Numbered = tuple[int, Row]
MOST_LINES = 400
"""A sequence diagram, and a picture of a producer's window, has at most this many lines."""
LATEST = 400
"""The default number of rows in a picture."""


class Wish(Struct, frozen=True):
    """A requested picture: the numbers of its first and last row, its width in px, and its subject. The row number 0 stands for
    the first or the last row of the trace."""

    first: int = 0
    last: int = 0
    width: int = 1000
    lines: int = 60
    of: str = ""
    """the partition, group or producer to draw; "" stands for the one with the most rows"""


def _sequence(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return sequence(_within(rows, wish), wish.width, wish.lines)


def _overview(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return overview(rows, wish.width, wish.first, wish.last)


def _log(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return log(_until(rows, wish), wish.first, wish.width, wish.of)


def _groups(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return groups(_until(rows, wish), wish.first, wish.width, wish.of)


def _windows(rows: Sequence[Numbered], wish: Wish) -> Picture:
    return windows(_until(rows, wish), wish.first, wish.width, wish.lines, wish.of)


ALL: dict[str, Callable[[Sequence[Numbered], Wish], Picture]] = {
    "sequence": _sequence, "log": _log, "groups": _groups, "windows": _windows, "overview": _overview,
}  # fmt: skip
"""The function that draws each kind in `PICTURES`. The overview is only in the live page: it shows which rows are drawn."""


def draw(kind: str, rows: Sequence[Numbered], wish: Wish) -> Picture:
    """Draws a picture of numbered rows. The rows must be in the order of their numbers. Raises KeyError if the kind is
    unknown."""
    width = min(max(wish.width, NARROWEST), WIDEST)
    return ALL[kind](rows, replace(wish, width=width, lines=min(max(wish.lines, 5), MOST_LINES)))


def _until(rows: Sequence[Numbered], wish: Wish) -> Sequence[Numbered]:
    return rows[: bisect_right(rows, wish.last, key=lambda row: row[0])] if wish.last else rows


def _within(rows: Sequence[Numbered], wish: Wish) -> Sequence[Numbered]:
    until = _until(rows, wish)
    return until[bisect_left(until, wish.first, key=lambda row: row[0]) :]
