"""Decides about the stored copies of a record: which copy is the original, which other copy each further copy is compared with,
and which copies were intended.

Both audits call these functions, each for its own kind of rows. The arguments are the places of all copies of one record, and
the results are positions in this list of places.
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
    """One intended record, as a journal has it."""

    partition: int | None
    """None means any partition"""
    acknowledged: bool | None
    """None means unknown"""


MANY = 20
"""Retries cause at most this many copies of one content: a client that gives up after ten retries has stored the content at
most eleven times. A content that is stored more often, such as a heartbeat, repeats on purpose.
"""
OFTEN, FEW = 4, 1000
"""If a topic has more than `FEW` records, and each content is stored more than `OFTEN` times on average, the records are states
instead of events. Then contents repeat too often to identify duplicates."""


class Repeats(NamedTuple):
    """How often the contents of a topic repeat. Records that a journal names are not counted."""

    units: int
    many: int
    """the number of units (records or batches) whose content is stored more than `MANY` times"""
    contents: int
    """the number of different contents among the other units"""

    @classmethod
    def of(cls, copies: Iterable[int]) -> Repeats:
        """Counts the repeats, from the number of copies of each content."""
        counts = list(copies)
        many = [count for count in counts if count > MANY]
        return cls(sum(counts), sum(many), len(counts) - len(many))

    @property
    def vague(self) -> bool:
        """Tells whether no content of the topic can identify duplicates."""
        others = self.units - self.many
        return others > FEW and others > OFTEN * self.contents

    def notice(self, topic: str, journal: str) -> str | None:
        """Returns a sentence that says which records were not compared, and that names `journal`, the option that takes a
        journal. Returns None if all records were compared."""
        only = f"only a journal ({journal}) can say which of these records are stored twice"
        if self.vague:
            return f"{topic}: contents of records repeat too often to identify duplicates, so they were not compared; {only}"
        if self.many:
            return f"{topic}: {self.many:,} records whose content is stored more than {MANY} times were not compared; {only}"
        return None


class Matched(NamedTuple):
    """The result of matching the stored copies of a record with the intended records. All numbers are positions in these two
    lists."""

    beyond: list[tuple[int, int]]
    """each copy that was not intended, and the copy with which it is compared"""
    failed: list[tuple[int, int]]
    """each stored copy whose sending was reported as failed, and its intended record"""
    missing: list[int]
    """the intended records that are not stored"""


def is_tombstone(key: bytes | None, value_hash: str | None) -> bool:
    """Tells whether the record deletes its key. A second tombstone is not a duplicate if the key was written in between."""
    return key is not None and value_hash is None


def copies_of(places: Sequence[Place]) -> list[tuple[int, int]]:
    """Returns every copy except the original, each with the copy with which it is compared."""
    return list(_compared(_in_order(places), places))[1:]


def match(places: Sequence[Place], wishes: Sequence[Wish]) -> Matched:
    """Match the copies of one record with the intended records (see `_given`)."""
    order = _in_order(places)
    given = _given(order, places, wishes)
    used = set(given)
    pairs = list(zip(given, range(len(wishes)), strict=True))
    return Matched(
        beyond=[(copy, first) for copy, first in _compared(order, places) if copy not in used],
        failed=[(copy, wish) for copy, wish in pairs if copy is not None and wishes[wish].acknowledged is False],
        missing=[wish for copy, wish in pairs if copy is None and wishes[wish].acknowledged is not False],
    )


def _in_order(places: Sequence[Place]) -> list[int]:
    """Returns the copies in order: the original, the first copies on the other partitions, and then all further copies."""
    if len(places) == 1:
        return [0]
    rank: dict[int, int] = defaultdict(int)
    ranked = []
    for index in sorted(range(len(places)), key=lambda each: places[each].offset):
        place = places[index]
        ranked.append((rank[place.partition], place.timestamp, place.partition, place.offset, index))
        rank[place.partition] += 1
    return [each[-1] for each in sorted(ranked)]


def _compared(order: Sequence[int], places: Sequence[Place]) -> Iterator[tuple[int, int]]:
    """Pairs the copies. On each partition, the first copy belongs to the original, and each further copy belongs to the first
    copy.

    Yields nothing if there is only one copy.
    """
    firsts: dict[int, int] = {}
    for copy in order if len(order) > 1 else ():
        first = firsts.setdefault(places[copy].partition, copy)
        yield copy, first if first != copy else order[1] if copy == order[0] else order[0]


def _given(order: Sequence[int], places: Sequence[Place], wishes: Sequence[Wish]) -> list[int | None]:
    """Returns the copy of each intended record, or None if no copy is left for the record.

    Acknowledged records get their copies first, then records whose outcome is unknown, and then failed records. Among records
    with the same outcome, records with a partition come first. If possible, a record without a partition gets a copy that no
    record with a partition needs.
    """
    free: dict[int, deque[int]] = defaultdict(deque)
    for rank, copy in enumerate(order):
        free[places[copy].partition].append(rank)
    needed = Counter(wish.partition for wish in wishes)
    given: list[int | None] = [None] * len(wishes)
    for number in sorted(range(len(wishes)), key=lambda each: _urgency(wishes[each])):
        partition = wishes[number].partition
        needed[partition] -= 1
        if partition is None:
            spare = [ranks[0] for where, ranks in free.items() if len(ranks) > needed[where]]
            fitting = spare or [ranks[0] for ranks in free.values() if ranks]
        else:
            fitting = [free[partition][0]] if free[partition] else []
        if fitting:
            given[number] = copy = order[min(fitting)]
            free[places[copy].partition].popleft()
    return given


def _urgency(wish: Wish) -> tuple[int, bool]:
    return {True: 0, None: 1, False: 2}[wish.acknowledged], wish.partition is None
