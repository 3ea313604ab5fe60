"""The pictures in the report of a failed test."""

from __future__ import annotations

from collections.abc import Iterable

from wirebroker.trace.rows import Row
from wirebroker_tools.pictures import PICTURES
from wirebroker_tools.pictures.drawing import LATEST, Wish, draw
from wirebroker_tools.pictures.marks import svg

MOST_LINES = 100
"""A picture has at most this many lines."""


def pictures_of_failure(traced: Iterable[Row]) -> dict[str, str]:
    """Returns the non-empty pictures of the latest rows, as SVG files by kind."""
    rows = list(enumerate(traced, 1))
    first = max(len(rows) - LATEST, 0) + 1
    drawn = {kind: draw(kind, rows, Wish(first, lines=MOST_LINES)) for kind in PICTURES} if rows else {}
    return {kind: svg(each) for kind, each in drawn.items() if kind == "sequence" or each.choice}
