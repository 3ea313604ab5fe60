"""Draws a ribbon that shows the contents of a log at each offset. Above the ribbon are a scale and a legend of the colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from wirebroker_tools.pictures.exchanges import span_of
from wirebroker_tools.pictures.marks import LETTER, Mark, group, line, named, rect, text

THICK = 26


class Piece(NamedTuple):
    """A piece of the ribbon: a batch, or the marker that ends a transaction."""

    first: int
    last: int
    kind: str
    """the CSS class for the shape and the colour"""
    words: str
    title: str
    row: int = 0
    """the number of the piece's row in the trace, or 0"""
    tone: str = "plain"
    """the CSS class for the words"""


def sequences(first: int, last: int) -> str:
    """Returns the sequences of a batch in words, or "" if the batch has no sequences."""
    return f"seq {span_of(first, last)}" if first >= 0 else ""


class Ribbon:
    """A ribbon for the offsets from `low` to `high` − 1, drawn from x = `left` to x = `right`."""

    def __init__(self, low: int, high: int, left: float, right: float) -> None:
        self.low, self.high, self.left, self.right = low, high, left, right

    def x(self, offset: float) -> float:
        """Returns the x coordinate of an offset."""
        offset = min(max(offset, self.low), self.high)
        return self.left + (offset - self.low) / max(self.high - self.low, 1) * (self.right - self.left)

    def producers(self, names: Mapping[str, str], y: float = 16.0) -> tuple[list[Mark], float]:
        """Returns two values: the legend of the producers and their colours, and the y coordinate below the legend. The first
        base line of the legend is at `y`. The ribbon may begin below the legend.
        """
        marks: list[Mark] = []
        x = self.left
        for name, colour in names.items():
            words = named(name, self.right - self.left - 20)
            wide = len(words) * LETTER + 28
            if x + wide > self.right and x > self.left:
                x, y = self.left, y + 18
            marks += [rect(x, y - 9, 11, 11, f"fill {colour}", "", 2), text(x + 16, y, words, "say plain")]
            x += wide
        return marks, y + 8

    def scale(self, y: float) -> Iterator[Mark]:
        """Yields the scale of offsets above the ribbon."""
        yield text(self.left - 8, y + 17, "offset", "end say dim")
        room = max(len(f"{self.high:,}") * LETTER + 16, 70)
        step = max(self.high - self.low, 1) / max(int((self.right - self.left) / room), 1)
        step = next(each * 10**power for power in count() for each in (1, 2, 5) if each * 10**power >= step)
        for offset in range(-(-self.low // step) * step, self.high + 1, step):
            x = self.x(offset)
            place = "end " if x > self.right - room / 2 else "" if x < self.left + room / 2 and room > 70 else "middle "
            yield text(x, y - 4, f"{offset:,}", f"{place}say dim")
            yield line(x, y, x, y + THICK, "rule")

    def draw(self, y: float, pieces: Iterable[Piece]) -> Iterator[Mark]:
        """Yields the marks of the ribbon's pieces. `pieces` must be in the order of their offsets. Pieces that are too narrow
        to be seen are left out."""
        yield rect(self.left, y, self.right - self.left, THICK, "edge", "", 3)
        drawn = -1.0
        for each in pieces:
            x, wide = self.x(each.first), self.x(each.last + 1) - self.x(each.first)
            if x + wide < drawn + 0.5:
                continue
            drawn = x + wide
            marks = [rect(x, y + 1, max(wide - 1, 0.5), THICK - 2, each.kind, each.title, 2)]
            words = next((word for word in (each.words, each.words.removeprefix("seq ")) if len(word) * LETTER < wide - 6), "")
            if words:
                marks.append(text(x + wide / 2, y + 17, words, f"middle say {each.tone}"))
            yield group(marks, row=each.row) if each.row else Mark("g", {}, "", marks)
