"""Draws the stored log of a partition, with the findings of an audit. No trace is needed, so the picture has no times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wirebroker_tools.pictures.marks import LETTER, Mark, Picture, coloured, fitted, path, text
from wirebroker_tools.pictures.ribbon import THICK, Piece, Ribbon, sequences

LEFT, TOP = 52, 22
LANE = 22
ENDS = {0: ("aborted", "bad"), 1: ("committed", "good")}
SEVERITIES = {"certain": "bad", "likely": "warn"}
"""The colour class of each severity. Findings of other severities are dim."""


class Stored(NamedTuple):
    """A batch, or the marker that ends a transaction. `marker` is 0 for an abort, 1 for a commit, and −1 for a batch."""

    first: int
    last: int
    producer: str
    first_sequence: int = -1
    last_sequence: int = -1
    marker: int = -1


class Found(NamedTuple):
    """A finding and its range of offsets. If the finding is about two copies of the same records, each copy has its own range:
    with `is_other`, this is the range of the other copy.
    """

    kind: str
    severity: str
    first: int
    last: int
    words: str = ""
    is_other: bool = False


def stored(name: str, batches: Sequence[Stored], found: Sequence[Found], width: int) -> Picture:
    """Draws batches and, below them, a lane for each kind of finding in the batches' range of offsets. `batches` must be in the
    order of their offsets.
    """
    low, high = (batches[0].first, max(each.last for each in batches) + 1) if batches else (0, 1)
    ribbon = Ribbon(low, high, LEFT, width - 14)
    colours = coloured(sorted({each.producer for each in batches if each.marker < 0}))
    producers, y = ribbon.producers(colours)
    marks = [*producers, *ribbon.scale(y + TOP), *ribbon.draw(y + TOP, _pieces(batches, colours))]
    y += TOP + THICK
    there = [each for each in found if each.last >= low and each.first < high]
    for kind in dict.fromkeys(each.kind for each in there):
        marks += _lane(ribbon, y, [each for each in there if each.kind == kind])
        y += LANE + 4
    return Picture("stored", f"the log of {name}", width, int(y + 10), marks)


def _pieces(batches: Iterable[Stored], colours: dict[str, str]) -> Iterator[Piece]:
    for each in batches:
        where = f"offset {each.first:,}" if each.first == each.last else f"offsets {each.first:,}–{each.last:,}"
        if each.marker >= 0:
            state, kind = ENDS[each.marker]
            yield Piece(each.first, each.last, f"tint boxed {kind}", state, f"{where}: {each.producer} {state}", 0, kind)
        else:
            words = sequences(each.first_sequence, each.last_sequence)
            title = f"{each.producer}, {where}" + (f", {words}" if words else "")
            yield Piece(each.first, each.last, f"half {colours[each.producer]}", words, title)


def _lane(ribbon: Ribbon, y: float, found: Sequence[Found]) -> Iterator[Mark]:
    """Draw a bracket for each finding of one kind. The words for the kind are beside the first bracket that has room for
    them."""
    for each in found:
        x, end = ribbon.x(each.first), max(ribbon.x(each.last + 1), ribbon.x(each.first) + 3)
        kind = f"stroke thick {'dashed ' * each.is_other}{SEVERITIES.get(each.severity, 'dim')}"
        yield path([(x, y + 4), (x, y + 9), (end, y + 9), (end, y + 4)], kind, title=each.words or each.kind)
    first = found[0]
    others = " (dashed: the first copy)" if any(each.is_other for each in found) else ""
    words = f"{first.kind}{f', {len(found):,} times' if len(found) > 1 and not others else ''}{others}"
    x = (ribbon.x(first.first) + ribbon.x(first.last + 1)) / 2
    words = fitted(words, ribbon.right - ribbon.left)
    x = min(max(x, ribbon.left + len(words) * LETTER / 2), ribbon.right - len(words) * LETTER / 2)
    yield text(x, y + LANE - 1, words, f"middle say {SEVERITIES.get(first.severity, 'dim')}")
