"""The page's section about groups and pipelines: which offsets each group has committed, and where records are in doubt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wirebroker.common.page import table, text
from wirebroker_audit.checks.pipeline import sentence
from wirebroker_audit.report.colours import FAINT, INK, SEVERITIES, STORED
from wirebroker_audit.report.figures import Size, legend_above, picture, shortened, whole_numbers
from wirebroker_audit.report.gather import Row

LISTED = 20
"""The page lists this many pairs of group and partition, this many pipelines, and this many transactional groups."""
DRAWN = 12
"""The picture shows at most this many pairs of group and partition. The pairs with the gravest findings are chosen first, then
the pairs with the largest lag."""
THIN = 0.004
"""The smallest width of a mark, as a part of the picture's width. Without it, the mark of a single record would be
invisible."""


class Line(NamedTuple):
    """A group on one partition."""

    label: str
    first: int
    end: int
    committed: int
    marks: list[tuple[int, int, str]]
    """first offset, last offset and severity of each finding"""


def section(summary: Mapping[str, Any], shown: Sequence[Row]) -> Iterable[str]:
    """Yields the section; nothing if no group has committed and no pipeline was followed."""
    groups, followed = summary.get("groups", ()), summary.get("followed", ())
    if not groups and not followed:
        return
    yield "<h2>Groups and pipelines</h2>"
    yield from (f"<p>{text(sentence(row))}</p>" for row in followed[:LISTED])
    if lines := _lines(groups, summary["ranges"], shown):
        yield _progress(lines)
    if groups:
        names = ("commits", "committed", "lag")
        rows = sorted(groups, key=lambda each: -(each["lag"] or 0))[:LISTED]
        yield table(["group", "partition", *names], [
            [text(each["group"]), text(f"{each['topic']}-{each['partition']}"), *(_number(each[name]) for name in names)]
            for each in rows
        ])  # fmt: skip
    yield from _transactional(summary.get("pipelines", ())[:LISTED])


def _transactional(pipelines: Sequence[Row]) -> Iterable[str]:
    """Yields the groups that commit in transactions."""
    if not pipelines:
        return
    names = {
        "producers": "producers", "committed": "transactions committed", "aborted": "aborted", "open": "open",
        "inputs": "offsets passed", "inputs_again": "passed again", "outputs": "records committed",
        "outputs_aborted": "records aborted",
    }  # fmt: skip
    rows = [[text(each["group"]), *(f"{each[name]:,}" for name in names)] for each in pipelines]
    yield table(["group", *names.values()], rows)
    if any(each["first_commits"] for each in pipelines):
        yield (
            "<p class='about'>A log does not show how many offsets the first commit of a partition passed, so these offsets do "
            "not count as passed. The records of the transaction count as committed. Markers and aborted inputs have "
            "offsets, too.</p>"
        )


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _lines(groups: Sequence[Row], ranges: Sequence[Row], shown: Sequence[Row]) -> list[Line]:
    bounds = {(each["topic"], each["partition"]): (each["first"], each["end"]) for each in ranges}
    marks: dict[tuple[str, str, int], list[tuple[int, int, str]]] = {}
    for each in shown:
        told = json.loads(each["evidence"])
        where = told["input"] if isinstance(told.get("input"), dict) else each  # the finding itself may be about an output
        first = where.get("first_offset", where.get("offset", -1))
        last = max(where.get("last_offset", first), first)
        if "group" in told and first >= 0:
            key = (told["group"], where["topic"], where["partition"])
            marks.setdefault(key, []).append((first, last, each["severity"]))
    lines = []
    for each in groups:
        place = each["topic"], each["partition"]
        if place in bounds:
            first, end = bounds[place]
            label = f"{each['group']}: {each['topic']}-{each['partition']}"
            found = marks.get((each["group"], *place), [])
            lines.append(Line(label, first, max(end, each["committed"]), each["committed"], found))
    severities = list(SEVERITIES)
    gravest = {line.label: min((severities.index(mark[2]) for mark in line.marks), default=len(severities)) for line in lines}
    return sorted(lines, key=lambda line: (gravest[line.label], line.committed - line.end, line.label))[:DRAWN]


def _progress(lines: Sequence[Line]) -> str:
    """Draws the offsets of each partition: committed offsets, uncommitted offsets, and offsets in doubt."""

    def draw(figure: Figure, axes: Axes, size: Size) -> None:
        places = range(len(lines), 0, -1)
        axes.barh(places, [line.end - line.first for line in lines], left=[line.first for line in lines], color=FAINT,
                  height=0.3, alpha=0.4, label="not committed")  # fmt: skip
        done = [max(line.committed - line.first, 0) for line in lines]
        axes.barh(places, done, left=[line.first for line in lines], color=STORED, height=0.3, label="committed")
        least = max(line.end for line in lines) * THIN
        for severity, colour in SEVERITIES.items():
            spans = [(place, first, max(last + 1 - first, least)) for place, line in zip(places, lines, strict=True)
                     for first, last, each in line.marks if each == severity]  # fmt: skip
            if spans:
                at, left, width = zip(*spans, strict=True)
                axes.barh(at, width, left=left, color=colour, height=0.62, label=severity)
        axes.set_yticks(places, [shortened(line.label, size.letters) for line in lines])
        axes.set_xlabel("offset", color=INK)
        whole_numbers(axes.xaxis, size, max(line.end for line in lines))
        legend_above(figure, axes, size)

    return picture("The progress of groups", 0.9 + 0.28 * len(lines), draw)
