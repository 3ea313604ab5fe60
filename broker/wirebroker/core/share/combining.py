"""Merging the batches of a share partition's state (PersisterStateBatchCombiner).

Where batches overlap, the one with the higher number of deliveries wins, and with equal numbers the one with the later state.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from wirebroker.core.share.in_flight import StateBatch


def combined(held: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """All batches, without overlaps and without what lies before the start offset (−1: unknown), in order."""
    batches = [*held, *new]
    if start_offset != -1:
        batches = [each._replace(first=max(each.first, start_offset)) for each in batches if each.last >= start_offset]
    if len(batches) < 2:
        return batches
    rest = sorted(set(batches), key=_place)
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
