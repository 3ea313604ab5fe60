"""Which stored copy is which: the original, what a copy is compared with, and what was intended by it.

Pure functions over places, for the audit in the small and for the one on Spark: both have rows of their own, and answers
are positions in the lists that they give.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
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


MANY = 20
"""Copies of one content. What is sent again has fewer: a client that gives up after ten retries has stored it eleven times. A
content that is there more often, a heartbeat, is meant to be."""
OFTEN, FEW = 4, 1000
"""Where each content of a topic is there more often than this on the average, in more records than that, they are states and
not events, and contents tell nothing apart."""


class Repeats(NamedTuple):
    """How the contents of a topic repeat that no journal names."""

    units: int
    many: int
    """of these, those whose content is there more than `MANY` times"""
    contents: int
    """different ones of the others"""

    @classmethod
    def of(cls, copies: Iterable[int]) -> Repeats:
        """By how often each content is there."""
        counts = list(copies)
        many = [count for count in counts if count > MANY]
        return cls(sum(counts), sum(many), len(counts) - len(many))

    @property
    def vague(self) -> bool:
        """Whether no content of the topic tells anything apart."""
        left = self.units - self.many
        return left > FEW and left > OFTEN * self.contents

    def notice(self, topic: str, journal: str) -> str | None:
        """What to say of it, and with which option a journal is given; None if nothing is left out."""
        only = f"only a journal ({journal}) can say which of these records are stored twice"
        if self.vague:
            return f"{topic}: the contents repeat so often that they tell nothing apart; {only}"
        if self.many:
            return (
                f"{topic}: contents that are there more than {MANY} times, {self.many:,} in all, tell nothing apart and were "
                f"left out; {only}"
            )
        return None


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
