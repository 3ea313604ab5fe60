"""The pictures of the report. Each picture shows a finding in the colour of its severity."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from wirebroker.audit.findings import COPIES
from wirebroker_audit.checks.other_rules import NO_IDEMPOTENCE
from wirebroker_audit.report.colours import PAPER, SEVERITIES, STORED
from wirebroker_audit.report.figures import LETTER_INCHES, SMALL, Size, legend_above, picture, shortened, stacked, whole_numbers
from wirebroker_audit.report.gather import Ribbon, Row, Timeline
from wirebroker_tools.pictures.marks import NARROWEST, element
from wirebroker_tools.pictures.stored import Found, Stored, stored

_CURVES = (
    ("recognised", "retries recognised", STORED),
    ("rejected", "rejected", SEVERITIES["likely"]),
    ("doubled", "stored again", SEVERITIES["certain"]),
)
AUDITS = 60
"""The picture of earlier audits has at most this many audits."""
WIDE_PX, NARROW_BATCHES = 840, 12
"""The width of a ribbon on a wide page, and the number of batches in a ribbon on a phone."""
SHADES = 5
"""The steps of the colour scale for the number of records in a cell."""


def findings_by_kind(kinds: Sequence[Row]) -> str:
    """Draws a bar for each kind and severity of findings, with the number of findings."""

    def draw(_: Figure, axes: Axes, size: Size) -> None:
        places = range(len(kinds), 0, -1)
        colours = [SEVERITIES[each["severity"]] for each in kinds]
        counts = [each["count"] for each in kinds]
        labels = [f"{each['count']:,} {each['severity']}" for each in kinds]
        bars = axes.barh(places, counts, color=colours, edgecolor=colours, height=0.7)
        axes.bar_label(bars, labels, padding=4, fontsize=SMALL)
        axes.set_yticks(places, [each["kind"] for each in kinds])
        names, beside = (max(map(len, texts)) + 2 for texts in ([each["kind"] for each in kinds], labels))
        axes.set_xlim(0, max(counts) * (1 + beside / max(size.width / LETTER_INCHES - names - beside, 1)))
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)

    title = ", ".join(f"{each['kind']} {each['count']}" for each in kinds)
    return picture(f"Findings by kind: {title}", 0.3 + 0.28 * len(kinds), draw)


def heat_map(cells: Sequence[Row]) -> str:
    """Draws records by partition and producer. A number in a cell counts the findings."""
    down = sorted({(each["topic"], each["partition"]) for each in cells})

    def draw(figure: Figure, axes: Axes, size: Size) -> None:
        across = _most_wrong(cells, size.producers)
        grid = [[math.nan] * len(across) for _ in down]
        for each in (each for each in cells if each["producer_id"] in across):
            row, column = down.index((each["topic"], each["partition"])), across.index(each["producer_id"])
            grid[row][column] = each["records"]
            if each["worst"]:
                box = {"boxstyle": "round,pad=0.2", "facecolor": SEVERITIES[each["worst"]], "edgecolor": "none"}
                count = f"{each['wrong']}" if each["wrong"] < 1000 else "999+"
                axes.text(column, row, count, ha="center", va="center", color=PAPER, fontsize=SMALL - 1, bbox=box)
        _shade(figure, axes, size, grid)
        axes.set_yticks(range(len(down)), [shortened(f"{topic}-{number}", size.letters) for topic, number in down])
        names = ["no id" if each < 0 else shortened(str(each), 9) for each in across]
        axes.set_xticks(range(len(across)), names, rotation=90)
        axes.set_xlabel("producer id; in a box: findings")

    return picture("Records by partition and producer", 1.6 + 0.28 * len(down), draw)


def _most_wrong(cells: Sequence[Row], most: int) -> list[int]:
    """Chooses the producers with the most findings, then the producers with the most records, and orders them by id."""
    sums: dict[int, tuple[int, int]] = {}
    for each in cells:
        wrong, records = sums.get(each["producer_id"], (0, 0))
        sums[each["producer_id"]] = wrong + each["wrong"], records + each["records"]
    return sorted(sorted(sums, key=lambda producer: sums[producer], reverse=True)[:most])


def _shade(figure: Figure, axes: Axes, size: Size, grid: Sequence[Sequence[float]]) -> None:
    """Colour the cells by their numbers; the shades change at whole numbers."""
    most = max(number for row in grid for number in row if not math.isnan(number))
    bounds = MaxNLocator(SHADES, integer=True, min_n_ticks=1).tick_values(0, max(most, 1))
    steps = len(bounds) - 1
    shades = ListedColormap([to_rgba(STORED, 0.12 + 0.68 * step / steps) for step in range(steps)])
    sides = [[place - 0.5 for place in range(length + 1)] for length in (len(grid[0]), len(grid))]
    mesh = axes.pcolormesh(*sides, grid, cmap=shades, norm=BoundaryNorm(bounds, shades.N))
    axes.invert_yaxis()
    bar = figure.colorbar(mesh, ax=axes, label="records", orientation="horizontal", aspect=40)
    ticks = [*bounds] if size.room(bounds[-1]) > len(bounds) else [bounds[0], bounds[-1]]
    bar.set_ticks(ticks, labels=[f"{number:,.0f}" for number in ticks])
    bar.outline.set_visible(False)


def timeline(line: Timeline) -> str:
    """Draws sequences over offsets. The line rises steadily if the producer's batches are in order. If a batch is stored twice,
    both copies are marked.
    """

    def draw(figure: Figure, axes: Axes, size: Size) -> None:
        batches = [Stretch.of(each, "base_offset", "last_offset", "base_sequence", "last_sequence") for each in line.batches]
        _draw(axes, batches, color=STORED, linewidth=2.2, label="stored")
        for (kind, severity), alike in groupby(sorted(line.findings, key=_like), _like):
            _mark(axes, kind, SEVERITIES[severity], list(alike))
        axes.set_xlabel("offset")
        axes.set_ylabel("sequence")
        axes.margins(0.06)
        whole_numbers(axes.xaxis, size, axes.get_xlim()[1])
        whole_numbers(axes.yaxis, size, 0)
        legend_above(figure, axes, size)

    return picture(f"Sequences of producer {line.producer_id} on {line.topic}-{line.partition}", 3.6, draw)


class Stretch(NamedTuple):
    """A range of offsets and the range of their sequences; both ranges exclude their ends."""

    offsets: tuple[int, int]
    sequences: tuple[int, int]

    @classmethod
    def of(cls, row: Row, *names: str) -> Stretch:
        """Returns the stretch that a row describes. `names` are the row's columns for the first and last offset and
        sequence."""
        low, high, first, last = (int(row[name]) for name in names)
        return cls((low, high + 1), (first, last + 1))


def first_copies(found: Row) -> list[Stretch]:
    """A finding reports that records are stored twice. Returns the first copy of these records, if the copy is on the finding's
    partition and has sequences."""
    told = json.loads(found["evidence"])
    batches = [told[name] for name in ("first", "last") if isinstance(told.get(name), dict)]
    names: tuple[str, ...] = ("base_offset", "last_offset", "base_sequence", "last_sequence")
    if not batches and told.get("first_partition") == found["partition"]:
        batches, names = [told], tuple(f"first_{name}" for name in names)
    stretches = {Stretch.of(each, *names) for each in batches}
    return sorted(each for each in stretches if each.sequences[0] >= 0)


def _like(found: Row) -> tuple[str, str]:
    return found["kind"], found["severity"]


def _mark(axes: Axes, kind: str, colour: str, findings: Sequence[Row]) -> None:
    """Draws all findings of a kind: a gap as a band over its missing sequences, other findings where their records are
    stored."""
    if kind == "gap":
        for number, each in enumerate(findings):
            ends = each["first_sequence"], each["last_sequence"] + 1
            axes.axhspan(*ends, facecolor=(colour, 0.3), edgecolor=colour, label=kind if number == 0 else None)
        return
    places = [Stretch.of(each, "first_offset", "last_offset", "first_sequence", "last_sequence") for each in findings]
    _draw(axes, places, color=colour, linewidth=4, marker="o", markersize=6, label=kind)
    if kind in COPIES:
        firsts = [stretch for each in findings for stretch in first_copies(each)]
        _draw(
            axes,
            firsts,
            color=colour,
            linewidth=4,
            marker="o",
            markersize=6,
            markerfacecolor=PAPER,
            label=f"{kind}, first copy",
        )


def _draw(axes: Axes, stretches: Iterable[Stretch], *, marker: str = "", **look: Any) -> None:
    """Draws all stretches as one line with breaks, which keeps the page small. A marker stands at the beginning of each
    stretch."""
    across, up = [], []
    for offsets, sequences in stretches:
        across += [*offsets, math.nan]
        up += [*sequences, math.nan]
    if across:
        axes.plot(across, up, solid_capstyle="projecting", marker=marker, markevery=(0, 3), **look)


def ribbon(log: Ribbon) -> str:
    """Draws the stored batches of a partition around a finding, in both widths."""
    batches = [
        Stored(
            each["base_offset"], each["last_offset"],
            "no producer id" if each["producer_id"] < 0 else f"producer {each['producer_id']} epoch {each['producer_epoch']}",
            each["base_sequence"], each["last_sequence"], each["marker"],
        )
        for each in log.batches
    ]  # fmt: skip
    found = [
        Found(each["kind"], each["severity"], each["first_offset"], each["last_offset"], each["explanation"])
        for each in log.findings
    ]
    for each in log.findings:
        firsts = first_copies(each) if each["kind"] in COPIES else []
        found += [Found(each["kind"], each["severity"], first, end - 1, is_other=True) for (first, end), _ in firsts]
    about = log.findings[0]["first_offset"]
    near = sorted(sorted(batches, key=lambda each: abs(each.first - about))[:NARROW_BATCHES])
    drawn = {"wide": (batches, WIDE_PX), "narrow": (near, NARROWEST)}
    name = f"{log.topic}-{log.partition}"
    return "".join(
        f"<div class='{size}'>{element(stored(name, part, found, wide))}</div>" for size, (part, wide) in drawn.items()
    )


def trend(history: Sequence[Row]) -> str:
    """Draws the certain and the likely findings of the latest audits side by side."""
    audits = history[-AUDITS:]

    def draw(figure: Figure, axes: Axes, size: Size) -> None:
        counts = {severity: [each["severities"].get(severity, 0) for each in audits] for severity in ("certain", "likely")}
        bars = [(numbers, severity, SEVERITIES[severity]) for severity, numbers in counts.items()]
        stacked(axes, size, range(len(audits)), [each["time"][5:10] for each in audits], bars)
        axes.set_ylabel("findings")
        legend_above(figure, axes, size)

    return picture("Findings of the latest audits", 2.6, draw)


def what_if(outcomes: Sequence[Row]) -> str:
    """Draws how many retries are recognised, and how many are stored again, if the window has another size. Draws the same
    numbers for other profiles beside them."""
    windows = [each for each in outcomes if each["variant"].startswith("window")]
    others = [each for each in outcomes if not each["variant"].startswith("window")]
    places = range(len(windows) + len(others))
    names = [str(each["window"]) for each in windows] + [
        each["variant"].replace(NO_IDEMPOTENCE, "no\nidempotence") for each in others
    ]

    def draw(figure: Figure, axes: Axes, size: Size) -> None:
        for field, label, colour in _CURVES:
            counts = [each[field] for each in (*windows, *others)]
            axes.plot(places[: len(windows)], counts[: len(windows)], marker="o", color=colour, label=label)
            axes.plot(places[len(windows) :], counts[len(windows) :], marker="D", linestyle="", color=colour)
        axes.set_xticks(places, names, rotation=size.slant)
        axes.set_xlabel("window in batches, and other rules")
        axes.set_ylabel("batches")
        axes.set_ylim(bottom=0)
        whole_numbers(axes.yaxis, size, 0)
        legend_above(figure, axes, size)

    return picture("What other windows and rules do with the same arrivals", 3.6, draw)
