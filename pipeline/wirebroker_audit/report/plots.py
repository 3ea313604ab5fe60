"""The pictures, as SVG that scales with the page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wirebroker.audit.findings import COPIES, severity_of
from wirebroker_audit.other_rules import NO_IDEMPOTENCE
from wirebroker_audit.report.gather import Row, Timeline

COLOURS = {"certain": "#c0392b", "likely": "#d68910", "info": "#5d6d7e"}
STORED, DOUBLED, MISSING = "#2e86c1", COLOURS["certain"], COLOURS["likely"]
WIDTH = 6.4
"""Inches; the page scales it, on a phone to a little more than this."""
SMALL, NUMBER = 9, 8
"""Font sizes in points, at axes and in cells."""

_CURVES = (
    ("recognised", "retries recognised", STORED),
    ("rejected", "rejected", MISSING),
    ("doubled", "stored again", DOUBLED),
)


def findings_by_kind(kinds: dict[str, int]) -> str:
    """A bar for each kind."""
    figure, axes = _figure(0.6 + 0.32 * len(kinds))
    names = list(reversed(kinds))
    bars = axes.barh(names, [kinds[name] for name in names], color=[COLOURS[severity_of(name)] for name in names])
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.set_xscale("log") if max(kinds.values()) > 1000 else axes.set_xlim(0, max(kinds.values()) * 1.15)
    axes.set_xlabel("findings")
    return _svg(figure, f"Findings by kind: {', '.join(f'{name} {count}' for name, count in kinds.items())}")


def heat_map(cells: Sequence[Row]) -> str:
    """Records by partition and producer; a frame marks findings."""
    across = sorted({each["producer_id"] for each in cells})
    down = sorted({(each["topic"], each["partition"]) for each in cells})
    grid: list[list[float]] = [[float("nan")] * len(across) for _ in down]
    figure, axes = _figure(1.2 + 0.26 * len(down))
    for each in cells:
        row, column = down.index((each["topic"], each["partition"])), across.index(each["producer_id"])
        grid[row][column] = each["records"]
        if each["wrong"]:
            frame = mpl.patches.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=DOUBLED, linewidth=2)
            axes.add_patch(frame)
            axes.text(column, row, f"{each['wrong']}", ha="center", va="center", fontsize=NUMBER, color=DOUBLED)
    image = axes.imshow(grid, aspect="auto", cmap="Blues", vmin=0)
    axes.set_yticks(range(len(down)), [f"{topic}-{partition}" for topic, partition in down], fontsize=SMALL)
    names = ["no id" if each < 0 else str(each) for each in across]
    axes.set_xticks(range(len(across)), names, rotation=90, fontsize=SMALL)
    axes.set_xlabel("producer id; a number in a frame: findings")
    figure.colorbar(image, ax=axes, label="records")
    return _svg(figure, "Records by partition and producer")


def timeline(line: Timeline) -> str:
    """Sequences over offsets: a producer in order goes up steadily."""
    figure, axes = _figure(3.6)
    for each in line.batches:
        ends = [each["base_offset"], each["last_offset"] + 1], [each["base_sequence"], each["last_sequence"] + 1]
        axes.plot(*ends, color=STORED, linewidth=2.2, solid_capstyle="butt")
    labelled: set[str] = set()
    for found in line.findings:
        _mark(axes, found, labelled)
    axes.set_xlabel("offset")
    axes.set_ylabel("sequence")
    axes.margins(0.06)
    if labelled:
        axes.legend(loc="best", fontsize=SMALL)
    return _svg(figure, f"Sequences of producer {line.producer_id} on {line.topic}-{line.partition}")


def _mark(axes: Axes, found: Row, labelled: set[str]) -> None:
    kind = found["kind"]
    label = "" if kind in labelled else kind
    labelled.add(kind)
    first, last = found["first_sequence"], found["last_sequence"]
    if kind == "gap":
        axes.axhspan(first, last + 1, color=MISSING, alpha=0.35, label=label, linewidth=0)
        return
    ends = [found["first_offset"], found["last_offset"] + 1], [first, last + 1]
    axes.plot(*ends, color=DOUBLED if kind in COPIES else MISSING, linewidth=4, solid_capstyle="butt", label=label)
    axes.plot([ends[0][0]], [first], marker="o", color=DOUBLED if kind in COPIES else MISSING, markersize=6)


def what_if(outcomes: Sequence[Row]) -> str:
    """Retries that windows of other sizes recognise or store again; beside them the other profiles."""
    figure, axes = _figure(3.4)
    windows = [each for each in outcomes if each["variant"].startswith("window")]
    others = [each for each in outcomes if not each["variant"].startswith("window")]
    places = list(range(len(windows) + len(others)))
    names = [str(each["window"]) for each in windows] + [
        each["variant"].replace(NO_IDEMPOTENCE, "no\nidempotence") for each in others
    ]
    for field, label, colour in _CURVES:
        counts = [each[field] for each in (*windows, *others)]
        axes.plot(places[: len(windows)], counts[: len(windows)], marker="o", color=colour, label=label)
        axes.plot(places[len(windows) :], counts[len(windows) :], marker="D", linestyle="", color=colour)
    axes.set_xticks(places, names, fontsize=SMALL)
    axes.set_xlabel("window in batches, and other rules")
    axes.set_ylabel("batches")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=SMALL)
    return _svg(figure, "What other windows and rules do with the same arrivals")


def _figure(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure, title: str) -> str:
    """The figure as an SVG element that fills the width it is given."""
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wirebroker", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Title": title})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1), count=1)
