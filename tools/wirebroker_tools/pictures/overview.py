"""Draws the overview: a strip with all rows of a run. The strip shows where failures and faults are, and which window another
picture draws in detail."""

from __future__ import annotations

from collections.abc import Sequence

from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import FaultRow, ProduceRow, ReplyRow, Row
from wirebroker_tools.pictures.marks import Mark, Picture, line, rect, rounded, text

HEIGHT, TOP, BASE = 56, 4, 40
BAR = 3
"""The width of a bar in px."""


def overview(rows: Sequence[tuple[int, Row]], width: int = 1000, first: int = 0, last: int = 0) -> Picture:
    """Draws a histogram of rows by their numbers, and marks the window from `first` to `last`."""
    if not rows:
        return Picture("overview", "all rows", width, HEIGHT, [text(4, 24, "no row yet", "say dim")])
    low, high = rows[0][0], rows[-1][0]
    bins = max(min(width // BAR, len(rows)), 1)
    marks: list[Mark] = [line(0, BASE, width, BASE, "rule")]
    step, wide = len(rows) / bins, width / bins
    lasted = [
        max(rows[min(int((at + 1) * step), len(rows) - 1)][1].time - rows[int(at * step)][1].time, 1) for at in range(bins)
    ]
    most = max(step / each for each in lasted)
    for at in range(bins):
        part = rows[int(at * step) : int((at + 1) * step)]
        tall = max((step / lasted[at] / most) ** 0.35 * (BASE - TOP), 2)
        marks += _bar(part, at * wide, wide, tall)
    for share, kind in ((0.0, ""), (0.5, "middle "), (1.0, "end ")):
        when = time_of_day(rows[min(int(share * len(rows)), len(rows) - 1)][1].time)
        marks.append(text(share * width, HEIGHT - 3, when, f"{kind}say dim"))
    if last:
        place = [(each - low) / max(high - low + 1, 1) * width for each in (max(first, low), min(last, high) + 1)]
        marks.append(rect(place[0], 1, max(place[1] - place[0], 4), BASE, "tint boxed note"))
    return Picture("overview", "all rows, by number; the window is marked", rounded_width(width), HEIGHT, marks, low, high)


def rounded_width(width: float) -> int:
    """Returns the width in whole px."""
    return int(rounded(width))


def _bar(part: Sequence[tuple[int, Row]], x: float, wide: float, tall: float) -> list[Mark]:
    bad = any((isinstance(row, ReplyRow) and row.errors) or (isinstance(row, ProduceRow) and row.code) for _, row in part)
    struck = any(isinstance(row, FaultRow) for _, row in part)
    marks = [rect(x, BASE - tall, max(wide - 0.6, 0.6), tall, "half note")]
    for is_there, kind, y in ((bad, "bad", BASE - 7), (struck, "fault", BASE - 14)):
        if is_there:
            marks.append(rect(x, y, max(wide - 0.6, 2), 7, f"fill {kind}"))
    return marks
