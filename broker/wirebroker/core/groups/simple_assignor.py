"""The assignor "simple" of share groups, which assigns a partition to several members. This is Kafka's SimpleAssignor, but it
runs in slices.

As far as possible, each partition gets the same number of members, each member gets the same number of partitions, and members
keep their partitions. The assignor computes the same assignment as Kafka, if the former assignment is the same. For this
purpose, the assignor imitates the order of Java's hash tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from wirebroker.common.slices import weighted_pauses
from wirebroker.core.java_order import buckets_for, buckets_of_copy, hash_order, uuid_hash

Partitions = Mapping[bytes, tuple[int, ...]]
"""The sorted indexes of each topic's partitions, by topic id."""
Place = tuple[bytes, int]


class ShareSubscriber(NamedTuple):
    """A member as the assignor sees it: the ids of the topics that it subscribes to, and its last assignment."""

    topics: Sequence[bytes]
    given: Partitions


def simple(
    members: Mapping[str, ShareSubscriber], assignable: Mapping[bytes, Collection[int]], *, same: bool
) -> Generator[None, Any, dict[str, Partitions]]:
    """Returns the assignment of each member. `members` are in the order of Kafka's hash table, and `assignable` are the
    partitions that may be assigned. `same` tells whether all members subscribe to the same topics.
    """
    subscribers = list(members.values())
    if not any(each.topics for each in subscribers):
        return {}
    given = yield from (_give_same if same else _give_mixed)(subscribers, assignable)
    made = {}
    pause = weighted_pauses()
    for member_id, places in zip(members, given, strict=True):
        made[member_id] = as_partitions(places)
        yield from pause(len(places))
    return made


def _give_same(
    subscribers: Sequence[ShareSubscriber], assignable: Mapping[bytes, Collection[int]]
) -> Generator[None, Any, list[set[Place]]]:
    topics = dict.fromkeys(subscribers[0].topics)
    targets = [(topic, i) for topic in topics for i in sorted(assignable.get(topic, ()))]
    given = []
    pause = weighted_pauses()
    for each in subscribers:
        yield from pause(len(each.given))
        given.append({(topic, i) for topic, indexes in each.given.items() if topic in topics for i in indexes})
    yield from _Balance(range(len(subscribers)), targets, given, _hash_of_place).balance()
    return given


def _give_mixed(
    subscribers: Sequence[ShareSubscriber], assignable: Mapping[bytes, Collection[int]]
) -> Generator[None, Any, list[list[Place]]]:
    """Balance each topic separately. The members that take part are the topic's subscribers, and members that must give up the
    topic's partitions."""
    given: list[dict[bytes, set[Place]]] = [
        {topic: {(topic, i) for i in indexes} for topic, indexes in each.given.items()} for each in subscribers
    ]
    subscribed: dict[bytes, list[int]] = {}
    pause = weighted_pauses()
    for number, each in enumerate(subscribers):
        for topic in dict.fromkeys(each.topics):
            subscribed.setdefault(topic, []).append(number)
        yield from pause(len(each.topics))
    holders: dict[bytes, list[int]] = {}
    for number, held in enumerate(given):
        for topic in held:
            holders.setdefault(topic, []).append(number)
    for topic, members in subscribed.items():
        involved = sorted({*members, *holders.get(topic, ())})
        own = [given[number].get(topic, set()) for number in involved]
        targets = [(topic, i) for i in sorted(assignable.get(topic, ()))]
        wanting = frozenset(members)
        takers = [i for i, number in enumerate(involved) if number in wanting]
        yield from _Balance(takers, targets, own, lambda place: place[1]).balance()
        for number, places in zip(involved, own, strict=True):
            given[number][topic] = places
        yield from pause(len(involved) + len(targets))
    return [[place for places in held.values() for place in places] for held in given]


def as_partitions(places: Iterable[Place]) -> Partitions:
    """Returns these partitions by topic id."""
    made: dict[bytes, list[int]] = {}
    for topic, index in sorted(places):
        made.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in made.items()}


def _hash_of_place(place: Place) -> int:
    return (31 * uuid_hash(place[0]) + place[1]) & 0xFFFFFFFF


class _Balance:
    """Balances the partitions `targets` among `members`. `given` has the partitions of each member and is changed; `members`
    are indexes into `given`."""

    def __init__(
        self, members: Sequence[int], targets: Sequence[Place], given: list[set[Place]], hashed: Callable[[Place], int]
    ) -> None:
        self._given = given
        self._hashed = hashed
        self._size = len(targets)
        self._sharing = -(-len(members) // len(targets)) if targets else 0
        each = self._sharing * len(targets) / len(members)
        self._wanted = dict.fromkeys(range(len(given)), 0)
        for i, member in enumerate(members):
            self._wanted[member] = ceil(each * (i + 1)) - ceil(each * i)
        self._members = sorted(members)
        self._owners: dict[Place, set[int]] = {}
        for number, held in enumerate(given):
            for place in held:
                self._owners.setdefault(place, set()).add(number)
        self._targets = targets
        self._pause = weighted_pauses()

    def balance(self) -> Generator[None, Any, None]:
        """First remove partitions from members that have too many partitions. Then remove members from partitions that have too
        many members. Finally assign partitions to the members that have too few partitions."""
        for member, held in enumerate(self._given):
            gone = self._in_order(held, buckets_for(len(held)))[: max(len(held) - self._wanted[member], 0)]
            for place in gone:
                self._move(place, member, owns=False)
            yield from self._pause(len(held))
        for place in self._in_order(self._owners, self._buckets):
            yield from self._pause(1)
            for member in sorted(self._owners[place])[: max(len(self._owners[place]) - self._sharing, 0)]:
                self._move(place, member, owns=False)
        for place in self._targets:
            self._owners.setdefault(place, set())
        yield from self._pause(len(self._targets))
        yield from self._give()

    @property
    def _buckets(self) -> int:
        return (
            max(buckets_of_copy(self._size), buckets_for(len(self._owners))) if self._size else buckets_for(len(self._owners))
        )

    def _in_order(self, places: Iterable[Place], buckets: int) -> list[Place]:
        return hash_order(sorted(places), self._hashed, buckets)

    def _move(self, place: Place, member: int, *, owns: bool) -> None:
        if owns:
            self._given[member].add(place)
            self._owners[place].add(member)
        else:
            self._given[member].discard(place)
            self._owners[place].discard(member)

    def _give(self) -> Generator[None, Any, None]:
        """Give more members to each partition with too few members. Members with too few partitions take turns."""
        unfilled = [member for member in self._members if len(self._given[member]) < self._wanted[member]]
        turn, gave = 0, False
        for place in self._in_order(self._owners, self._buckets):
            yield from self._pause(1)
            missing = self._sharing - len(self._owners[place])
            while missing > 0 and unfilled:
                if turn >= len(unfilled):
                    if not gave:
                        break
                    turn, gave = 0, False
                member = unfilled[turn]
                turn += 1
                if member in self._owners[place]:
                    continue
                self._move(place, member, owns=True)
                missing, gave = missing - 1, True
                if len(self._given[member]) >= self._wanted[member]:
                    turn -= 1
                    del unfilled[turn]
