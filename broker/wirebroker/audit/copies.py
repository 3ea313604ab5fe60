"""Finds the batches that repeat stored sequences, and the places of the first copies, for both audits.

The places of a batch are its unwrapped sequences. The places are divided into cells wherever a batch begins or ends, and each
cell belongs to the first batch in the log that contains it. If a cell of a batch belongs to another batch, the places of this
cell were stored before. Batches are not compared in pairs. The cost is n log n for n batches, however many batches overlap,
because the ends of the batches are sorted.

The results are positions in the list of batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Copied(NamedTuple):
    """The repeated part of a batch, from the first to the last place that was stored before. Places between the first and the
    last may be new."""

    batch: int
    start: int
    end: int
    doubled: int
    """how many of the places from `start` to `end` were already stored"""
    first: int
    """the first batch that holds the place `start` of the repeated part"""
    last: int
    """the first batch that holds the place `end` of the repeated part"""


def copied(extents: Sequence[tuple[int, int]]) -> Iterator[Copied]:
    """Yields the batches that repeat earlier batches. `extents` are the first and last places of all batches, in log order."""
    cuts = sorted({cut for start, end in extents for cut in (start, end + 1)})
    cell_at = {cut: cell for cell, cut in enumerate(cuts)}
    cells = [range(cell_at[start], cell_at[end + 1]) for start, end in extents]
    owners = _owners(cells, len(cuts))
    after, before = _next_of_another(owners), _last_of_another(owners)
    owned = [0] * len(extents)
    for owner, (start, end) in zip(owners, pairwise(cuts), strict=False):
        if owner >= 0:
            owned[owner] += end - start
    for batch, ((start, end), mine) in enumerate(zip(extents, cells, strict=True)):
        first = mine[0] if owners[mine[0]] != batch else after[mine[0]]
        if first >= mine.stop:
            continue
        last = mine[-1] if owners[mine[-1]] != batch else before[mine[-1]]
        doubled = end + 1 - start - owned[batch]
        yield Copied(batch, cuts[first], cuts[last + 1] - 1, doubled, owners[first], owners[last])


def _owners(batches: Sequence[range], cells: int) -> list[int]:
    """Returns for each cell the first batch that contains the cell, or −1."""
    owners = [-1] * cells
    free = list(range(cells + 1))
    """Union-find links towards the next free cell."""
    for batch, mine in enumerate(batches):
        cell = _next_free(free, mine.start)
        while cell < mine.stop:
            owners[cell] = batch
            free[cell] = cell + 1
            cell = _next_free(free, cell)
    return owners


def _next_free(free: list[int], cell: int) -> int:
    while (after := free[cell]) != cell:
        free[cell] = free[after]  # a shorter path for the next search
        cell = free[cell]
    return cell


def _next_of_another(owners: Sequence[int]) -> list[int]:
    """Returns for each cell the nearest later cell with another owner."""
    found = list(range(1, len(owners) + 1))
    for cell in range(len(owners) - 2, -1, -1):
        if owners[cell] == owners[cell + 1]:
            found[cell] = found[cell + 1]
    return found


def _last_of_another(owners: Sequence[int]) -> list[int]:
    """Returns for each cell the nearest earlier cell with another owner."""
    return [len(owners) - 1 - cell for cell in reversed(_next_of_another(owners[::-1]))]
