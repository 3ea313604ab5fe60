"""The assignor of share groups, "simple", which gives a partition to several members (Kafka's SimpleAssignor).

Every partition gets the same number of members, as far as possible, and every member about as many partitions. Members keep
what they have. The result is Kafka's for the same history, so it follows the order of Java's hash tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from wirebroker.core.groups.java_order import buckets_for, buckets_of_copy, hash_order, uuid_hash

Partitions = Mapping[bytes, tuple[int, ...]]
"""Topic id to partitions, in order."""
Place = tuple[bytes, int]


class ShareSubscriber(NamedTuple):
    """A member as the assignor sees it: the ids of the topics it subscribes to, and its last assignment."""

    topics: Sequence[bytes]
    given: Partitions


def simple(
    members: Mapping[str, ShareSubscriber], assignable: Mapping[bytes, Collection[int]], *, same: bool
) -> dict[str, Partitions]:  # fmt: skip
    """The assignment of each member. `members` are in the order of Kafka's hash table, `assignable` the partitions that may be
    given out; `same` says that all members subscribe to the same topics.
    """
    ids, subscribers = list(members), list(members.values())
    if not any(each.topics for each in subscribers):
        return {}
    given = [{(topic, i) for topic, indexes in each.given.items() for i in indexes} for each in subscribers]
    if same:
        topics = subscribers[0].topics
        targets = [(topic, i) for topic in topics for i in sorted(assignable.get(topic, ()))]
        given = [{place for place in held if place[0] in topics} for held in given]
        _Balance(range(len(ids)), targets, given, _hash_of_place).balance()
    else:
        for topic in dict.fromkeys(topic for each in subscribers for topic in each.topics):
            subscribed = [i for i, each in enumerate(subscribers) if topic in each.topics]
            targets = [(topic, i) for i in sorted(assignable.get(topic, ()))]
            own = [{place for place in held if place[0] == topic} for held in given]
            _Balance(subscribed, targets, own, lambda place: place[1]).balance()
            given = [
                {place for place in held if place[0] != topic} | now for held, now in zip(given, own, strict=True)
            ]  # fmt: skip
    return {member_id: as_partitions(held) for member_id, held in zip(ids, given, strict=True)}


def as_partitions(places: Iterable[Place]) -> Partitions:
    """These partitions by topic id."""
    made: dict[bytes, list[int]] = {}
    for topic, index in sorted(places):
        made.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in made.items()}


def _hash_of_place(place: Place) -> int:
    return (31 * uuid_hash(place[0]) + place[1]) & 0xFFFFFFFF


class _Balance:
    """Gives partitions to members, by their numbers. `given` is what each member has, and is changed."""

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

    def balance(self) -> None:
        """Take from members and partitions that have too many, then give to those that have too few."""
        for member, held in enumerate(self._given):
            gone = self._in_order(held, buckets_for(len(held)))[: max(len(held) - self._wanted[member], 0)]
            for place in gone:
                self._move(place, member, owns=False)
        for place in self._in_order(self._owners, self._buckets):
            for member in sorted(self._owners[place])[: max(len(self._owners[place]) - self._sharing, 0)]:
                self._move(place, member, owns=False)
        for place in self._targets:
            self._owners.setdefault(place, set())
        self._give()

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

    def _give(self) -> None:
        """Go round the members with too few partitions."""
        unfilled = [member for member in self._members if len(self._given[member]) < self._wanted[member]]
        turn, gave = 0, False
        for place in self._in_order(self._owners, self._buckets):
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
