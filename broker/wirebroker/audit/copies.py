"""Of which batches something was stored before, and where: for the audit in the small and for the one on Spark.

A batch takes up places, which are its unwrapped sequences. Where any batch begins or ends the places are cut into cells,
and each cell belongs to the first batch in the log that has it: what a batch does not own of itself was stored before.
So no two batches are ever compared, and n of them cost n log n, however many overlap.

Answers are positions in the list of batches that is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Copied(NamedTuple):
    """What of a batch was stored before: from one place to another, though what lies between them may be new."""

    batch: int
    start: int
    end: int
    doubled: int
    """how many places from the start to the end were stored before"""
    first: int
    """the first batch that has the start"""
    last: int
    """the first batch that has the end"""


def copied(extents: Sequence[tuple[int, int]]) -> Iterator[Copied]:
    """The batches of which something was stored before; `extents` are their first and last places, in the log's order."""
    cuts = sorted({cut for start, end in extents for cut in (start, end + 1)})
    cell_at = {cut: cell for cell, cut in enumerate(cuts)}
    cells = [range(cell_at[start], cell_at[end + 1]) for start, end in extents]
    owners = _owners(cells, len(cuts))
    behind, before = _next_of_another(owners), _last_of_another(owners)
    owned = [0] * len(extents)
    for owner, (start, end) in zip(owners, pairwise(cuts), strict=False):
        if owner >= 0:
            owned[owner] += end - start
    for batch, ((start, end), mine) in enumerate(zip(extents, cells, strict=True)):
        first = mine[0] if owners[mine[0]] != batch else behind[mine[0]]
        if first >= mine.stop:
            continue
        last = mine[-1] if owners[mine[-1]] != batch else before[mine[-1]]
        doubled = end + 1 - start - owned[batch]
        yield Copied(batch, cuts[first], cuts[last + 1] - 1, doubled, owners[first], owners[last])


def _owners(batches: Sequence[range], cells: int) -> list[int]:
    """By cell the first batch that has it, or −1."""
    owners = [-1] * cells
    free = list(range(cells + 1))
    """By cell one at or behind it, on the way to the next that nobody owns."""
    for batch, mine in enumerate(batches):
        cell = _next_free(free, mine.start)
        while cell < mine.stop:
            owners[cell] = batch
            free[cell] = cell + 1
            cell = _next_free(free, cell)
    return owners


def _next_free(free: list[int], cell: int) -> int:
    while (behind := free[cell]) != cell:
        free[cell] = free[behind]  # so that the way is half as long the next time
        cell = free[cell]
    return cell


def _next_of_another(owners: Sequence[int]) -> list[int]:
    """By cell the next one that has another owner."""
    found = list(range(1, len(owners) + 1))
    for cell in range(len(owners) - 2, -1, -1):
        if owners[cell] == owners[cell + 1]:
            found[cell] = found[cell + 1]
    return found


def _last_of_another(owners: Sequence[int]) -> list[int]:
    """By cell the last one before it that has another owner."""
    found = list(range(-1, len(owners) - 1))
    for cell in range(1, len(owners)):
        if owners[cell] == owners[cell - 1]:
            found[cell] = found[cell - 1]
    return found
