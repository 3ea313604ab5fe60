"""Merging the batches of a share partition's state (PersisterStateBatchCombiner).

Where two batches overlap, the batch with more deliveries counts. If both batches have the same number of deliveries, the batch
with the higher state number counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter

from wirebroker.core.share.in_flight import StateBatch

_first, _last = attrgetter("first"), attrgetter("last")


def combined(held: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Returns all batches in order, without overlaps and without offsets before the start offset. An unknown start offset is
    −1.

    The batches in `held` are combined already. So the function compares only those of them that overlap or touch a batch in
    `new`. As in Kafka, adjacent batches with the same state may stay separate until the next call joins them.
    """
    if start_offset != -1:
        held, new = _from(held, start_offset), _from(new, start_offset)
    if len(held) + len(new) < 2:
        return [*held, *new]
    before, after = 0, len(held)
    if new and not any(one.last + 1 == other.first and one[2:] == other[2:] for one, other in pairwise(held)):
        before = bisect_left(held, min(each.first for each in new) - 1, key=_last)
        after = bisect_right(held, max(each.last for each in new) + 1, key=_first)
    return [*held[:before], *_merged(held[before:after], new), *held[after:]]


def _from(batches: Iterable[StateBatch], start: int) -> list[StateBatch]:
    return [each if each.first >= start else each._replace(first=start) for each in batches if each.last >= start]


def _merged(held: Iterable[StateBatch], new: Iterable[StateBatch]) -> list[StateBatch]:
    rest = sorted({*held, *new}, key=_place)
    done: list[StateBatch] = []
    while len(rest) > 1:
        one, other = rest[0], rest[1]
        same = _weight(one) == _weight(other)
        if other.first > one.last and not (same and one.last + 1 == other.first):
            done.append(rest.pop(0))
            continue
        del rest[:2]
        if same:
            pieces = [one._replace(last=max(one.last, other.last))]
        elif _weight(other) > _weight(one):
            pieces = [one._replace(last=other.first - 1), other, one._replace(first=other.last + 1)]
        else:
            pieces = [one, other._replace(first=one.last + 1)]
        for piece in pieces:
            if piece.first <= piece.last and piece not in rest:
                insort(rest, piece, key=_place)
    return done + rest


def _weight(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state


def _place(batch: StateBatch) -> tuple[int, int, int, int]:
    return batch.first, batch.last, batch.delivery_count, batch.state
