"""Which stored copy is which: the original, what a copy is compared with, and what was intended by it.

Pure functions over places, for the audit in the small and for the one on Spark: both have rows of their own, and answers
are positions in the lists that they give.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Where a copy of a record is stored."""

    partition: int
    offset: int
    timestamp: int


class Wish(NamedTuple):
    """What a journal says of one record that was intended."""

    partition: int | None
    """None: any"""
    acknowledged: bool | None
    """None: nobody knows"""


_RANK = {True: 0, None: 1, False: 2}


def in_order(places: Sequence[Place]) -> list[int]:
    """The first copy of each partition, the original at the head; then what is stored again."""
    if len(places) == 1:
        return [0]
    rank: dict[int, int] = defaultdict(int)
    ranked = []
    for index in sorted(range(len(places)), key=lambda each: places[each].offset):
        place = places[index]
        ranked.append((rank[place.partition], place.timestamp, place.partition, place.offset, index))
        rank[place.partition] += 1
    return [each[-1] for each in sorted(ranked)]


def compared(ordered: Sequence[int]) -> Iterator[int | None]:
    """For each copy the one that it is compared with: the first of its partition, or if it is that itself, the original.

    `ordered` are the partitions of the copies as `in_order` has them. None for a copy that is the only one.
    """
    firsts: dict[int, int] = {}
    for index, partition in enumerate(ordered):
        first = firsts.setdefault(partition, index)
        if first != index:
            yield first
        elif index:
            yield 0
        else:
            yield 1 if len(ordered) > 1 else None


def match(ordered: Sequence[int], wishes: Sequence[Wish]) -> list[int | None]:
    """Give each intended record a copy, those first that must be stored, and of these those that name a partition.

    One that names none is given a copy that no other one needs by its partition, as long as there is one. `ordered` are
    the partitions of the copies as `in_order` has them; the answer has the copy of each wish, or None.
    """
    left: dict[int, deque[int]] = defaultdict(deque)
    for index, where in enumerate(ordered):
        left[where].append(index)
    needed = Counter(wish.partition for wish in wishes)
    given: list[int | None] = [None] * len(wishes)
    for number in sorted(range(len(wishes)), key=lambda each: _urgency(wishes[each])):
        partition = wishes[number].partition
        needed[partition] -= 1
        if partition is None:
            spare = [copies[0] for where, copies in left.items() if len(copies) > needed[where]]
            fitting = spare or [copies[0] for copies in left.values() if copies]
        else:
            fitting = [left[partition][0]] if left[partition] else []
        if fitting:
            given[number] = copy = min(fitting)
            left[ordered[copy]].popleft()
    return given


def _urgency(wish: Wish) -> tuple[int, bool]:
    return _RANK[wish.acknowledged], wish.partition is None
