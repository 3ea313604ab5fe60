"""Draws the application's table over time: how many rows have a record, how many have none, and how late the records are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wirebroker_audit.report.colours import FAINT, INK, SEVERITIES, STORED
from wirebroker_audit.report.figures import Size, legend_above, picture, stacked

DAY = 86_400_000
_BARS = (
    ("stored", "stored", STORED),
    ("missing", "missing", SEVERITIES["certain"]),
    ("pending", "may still be sent", SEVERITIES["likely"]),
    ("gone", "may have been removed", FAINT),
)


def rows_over_time(topic: str, table: Mapping[str, Any]) -> str:
    """Draws one topic over the time in the table: bars show the number of rows, and lines show the median and the highest
    lateness."""
    buckets, width = table["topics"][topic]["buckets"], table["bucket_ms"]
    places = [each["begins_at"] / width for each in buckets]
    format = "%m-%d" if width >= DAY else "%H:%M" if width >= 60_000 else "%H:%M:%S"

    def draw(figure: Figure, axes: Axes, size: Size) -> None:
        bars = [([each[state] for each in buckets], label, colour) for state, label, colour in _BARS]
        shown = [datetime.fromtimestamp(each["begins_at"] / 1000, UTC).strftime(format) for each in buckets]
        stacked(axes, size, places, shown, [bar for bar in bars if any(bar[0])], width=0.9)
        axes.set_xlabel("time in the table (UTC)")
        axes.set_ylabel("rows")
        _lateness(axes, places, buckets)
        legend_above(figure, axes, size)

    return picture(f"Rows of the application's table for {topic}", 3.2, draw)


def _lateness(axes: Axes, places: list[float], buckets: list[Mapping[str, Any]]) -> None:
    """Draws the seconds from a row to its record, with a separate axis."""
    late = [(place, each) for place, each in zip(places, buckets, strict=True) if each["median"] is not None]
    if not late:
        return
    beside = axes.twinx()
    for name, label, style in (("median", "median lateness", "-"), ("latest", "highest lateness", ":")):
        seconds = [each[name] / 1000 for _, each in late]
        beside.plot([place for place, _ in late], seconds, style, color=INK, marker=".", label=label)
        axes.plot([], [], style, color=INK, marker=".", label=label)  # one legend for both
    beside.set_ylabel("seconds from row to record")
    beside.set_ylim(bottom=0)
    beside.spines["right"].set_visible(True)
