"""Draws each figure as SVG in two widths, for a wide page and for a phone, so that a reader sees the whole figure without
scrolling."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kafkawire.printable import printable
from wirebroker_audit.report.colours import FAINT, INK, PAPER, with_variables

POINTS_PER_INCH = 72


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a picture; the page shows each point as one pixel or more."""

    name: str
    """the class of the picture's element in the page"""
    width: float
    """inches"""
    letters: int
    """the number of letters that fit for the name of a partition"""
    producers: int
    """columns of the heat map"""
    columns: int
    """columns of a legend"""
    slant: int
    """the rotation of long names at the lower axis, in degrees"""

    def room(self, largest: float) -> int:
        """Returns the number of labels that fit side by side, if each label is as wide as the label of the `largest` number."""
        return int(self.width * 0.75 / LETTER_INCHES / (len(f"{largest:,.0f}") + 3))


WIDE, NARROW = Size("wide", 8.8, 34, 24, 3, 0), Size("narrow", 4.5, 16, 8, 1, 90)
SMALL = 10
"""The size of all letters, in points."""
LETTER_INCHES = SMALL * 0.62 / POINTS_PER_INCH
"""The width of a letter, in inches."""
_STYLE: Any = {
    "svg.fonttype": "none", "font.size": SMALL, "text.parse_math": False, "text.color": INK, "axes.edgecolor": FAINT,
    "axes.labelcolor": INK, "axes.labelsize": SMALL, "xtick.color": FAINT, "ytick.color": FAINT, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "legend.fontsize": SMALL,
    "legend.facecolor": PAPER, "legend.edgecolor": "none", "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip
"""A `$` in a text stays a `$`. Without this setting, matplotlib would take it for the beginning of a formula."""


def picture(title: str, height: float, draw: Callable[[Figure, Axes, Size], None]) -> str:
    """Returns the picture that `draw` draws, in both widths. `height` is in inches, and screen readers read `title`."""
    return "".join(f"<div class='{size.name}'>{_svg(title, height, draw, size)}</div>" for size in (WIDE, NARROW))


def whole_numbers(axis: Axis, size: Size, largest: float) -> None:
    """Puts as many ticks as there is room for, only at whole numbers, and writes these numbers in full."""
    axis.set_major_locator(MaxNLocator(nbins=min(max(size.room(largest), 1), 7), integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def legend_above(figure: Figure, axes: Axes, size: Size) -> None:
    """Draws the legend above the axes, so the picture becomes higher."""
    rows = -(-len(axes.get_legend_handles_labels()[1]) // size.columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(loc="outside upper left", ncols=size.columns)


def stacked(
    axes: Axes, size: Size, places: Sequence[float], labels: Sequence[str], bars: Sequence[tuple[list[int], str, str]],
    width: float = 0.8,
) -> None:  # fmt: skip
    """Draws numbers as bars on top of each other; `bars` has the numbers, the name and the colour of each layer. Draws as many
    labels below as there is room for."""
    below = [0] * len(places)
    for counts, label, colour in bars:
        axes.bar(places, counts, bottom=below, color=colour, label=label, width=width)
        below = [low + count for low, count in zip(below, counts, strict=True)]
    step = -(-len(places) // (size.room(0) // 3 + 1))
    axes.set_xticks(places[::step], labels[::step])
    axes.set_ylim(0, max(*below, 1))
    whole_numbers(axes.yaxis, size, 0)


def shortened(name: str, letters: int) -> str:
    """Shortens a long name in the middle, because the partition's number is at the end."""
    end = letters // 2
    return printable(name if len(name) <= letters else f"{name[: letters - end - 1]}…{name[-end:]}")


def _svg(title: str, height: float, draw: Callable[[Figure, Axes, Size], None], size: Size) -> str:
    out = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"{title} {size.name}"}):  # otherwise two pictures could share an id
        figure = Figure(figsize=(size.width, height), layout="constrained")
        draw(figure, figure.add_subplot(), size)
        with warnings.catch_warnings(action="ignore"):  # a letter that the measuring font lacks
            figure.savefig(out, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = out.getvalue()
    body = re.sub(r"<(metadata|style).*?</\1>\s*", "", text[text.index(">", text.index("<svg")) + 1 :], flags=re.DOTALL)
    body = re.sub(r' id="[\w.]+_\d+"', "", body)  # names of groups, the same in every picture
    body = re.sub(r'<path d="[^"]*" clip-path="[^"]*" style="fill: none"/>', "", body)  # empty cells
    body = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", body)
    width, points = (inches * POINTS_PER_INCH for inches in figure.get_size_inches())
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width:.6g} {points:.6g}" role="img" aria-label="{escape(shortened(title, 200))}">'
    )
    return head + with_variables(re.sub(r"\s*\n\s*", "\n", body)).strip()
