"""The uniform assignor for members with different subscriptions (Kafka's UniformHeterogeneousAssignmentBuilder).

Every member keeps its partitions of the topics to which it still subscribes. Each partition without an owner goes to the
subscriber with the fewest partitions. Then partitions are moved, topic by topic, from members with many partitions to members
with few partitions, until the balance no longer improves.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Any

from wirebroker.common.slices import weighted_pauses
from wirebroker.core.java_order import uuid_order

ROUNDS = 16
"""The largest number of rounds. A round balances each topic once."""
FREE = -1


Backwards = dict[bytes, dict[int, None]]
"""The partitions of a member by topic id, with the topics in reverse order.

In Java, HashMap.computeIfAbsent puts a new topic in front of the other topics in its bucket. A Python dict can add a key only
at the end, so here the order is reversed.
"""


def backwards(given: Mapping[bytes, Sequence[int]]) -> Backwards:
    """Returns a copy of `given` with the topics in reverse order. Partitions can be added to the copy."""
    return {topic: dict.fromkeys(given[topic]) for topic in reversed(list(given))}


def forwards(given: Backwards) -> Mapping[bytes, Collection[int]]:
    """Returns the partitions by topic id. The topics are in the order of Java's hash table."""
    return {topic: given[topic] for topic in reversed(given)}


def give(assignment: Backwards, topic: bytes, index: int) -> None:
    """Add a partition of the topic to a member's assignment."""
    assignment.setdefault(topic, {})[index] = None


class _Balancer:
    """The subscribers of one topic, sorted by their numbers of partitions. Partitions move from the members with the most
    partitions to the members with the fewest."""

    def __init__(self, sizes: list[int], subscribers: Iterable[int]) -> None:
        self._sizes = sizes
        self._order = sorted(subscribers, key=lambda member: (sizes[member], member))
        self.imbalance = sizes[self._order[-1]] - sizes[self._order[0]]
        self._least_end = 0
        self._least_size = sizes[self._order[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._order)
        self._most_size = sizes[self._order[-1]] + 1
        self._next_most = len(self._order) - 1

    @property
    def balanced(self) -> bool:
        """Tells whether the numbers of partitions of any two members differ by at most one."""
        return self._most_size - self._least_size <= 1

    def least(self) -> int:
        """Returns the member that gets the next partition. The members with the fewest partitions take turns."""
        if self._next_least >= self._least_end:
            self._least_size += 1
            while self._least_end < len(self._order) and self._sizes[self._order[self._least_end]] == self._least_size:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._order[self._next_least - 1]

    def most(self) -> int | None:
        """Returns the member that gives up the next partition, or None."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_size = self._sizes[self._order[self._most_start - 1]]
            else:
                self._most_size -= 1
            while self._most_start > 0 and self._sizes[self._order[self._most_start - 1]] == self._most_size:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._order[self._next_most + 1]

    def exclude(self) -> None:
        """Leave out the member that `most` returned last: it can give up no partition of the topic."""
        order, at, last = self._order, self._next_most + 1, self._most_end - 1
        order[at], order[last] = order[last], order[at]
        self._most_end -= 1


class MixedAssignment:
    """Computes one assignment, in slices. The members are numbered in the order of `topics`."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[bytes]],
        given: Mapping[str, Mapping[bytes, Sequence[int]]],
        sizes: Mapping[bytes, int],
    ) -> None:
        self._members = list(topics)
        self._topics = topics
        self._sizes = sizes
        self._given = given
        self._subscribers: dict[bytes, list[int]] = {}
        self._owners: dict[bytes, list[int]] = {}
        self._counts = [0] * len(self._members)
        self._made: list[Backwards] = [{} for _ in self._members]
        self._pause = weighted_pauses()

    def build(self) -> Generator[None, Any, dict[str, Backwards]]:
        """Returns the partitions of each member; empty if no member subscribes to a topic."""
        for number, member_id in enumerate(self._members):
            for topic in self._topics[member_id]:
                self._subscribers.setdefault(topic, []).append(number)
                yield from self._pause(1)
        if not self._subscribers:
            return {}
        self._owners = {topic: [FREE] * self._sizes[topic] for topic in self._subscribers}
        yield from self._keep()
        for topic in self._in_order(topic for topic, owners in self._owners.items() if FREE in owners):
            balancer = _Balancer(self._counts, self._subscribers[topic])
            for index, owner in enumerate(self._owners[topic]):
                if owner == FREE:
                    self._move(topic, index, balancer.least())
            yield from self._pause(self._weight(topic))
        yield from self._balance()
        return dict(zip(self._members, self._made, strict=True))

    def _weight(self, topic: bytes) -> int:
        return 2 * self._sizes[topic] + len(self._subscribers[topic])

    def _in_order(self, topics: Iterable[bytes]) -> list[bytes]:
        """Sorts topics: topics with the most partitions per subscriber come first."""

        def place(topic: bytes) -> tuple[float, int, tuple[int, int]]:
            subscribers = len(self._subscribers[topic])
            return -(self._sizes[topic] / subscribers), subscribers, uuid_order(topic)

        return sorted(topics, key=place)

    def _keep(self) -> Generator[None, Any, None]:
        for number, member_id in enumerate(self._members):
            wanted = frozenset(self._topics[member_id])
            kept = {topic: partitions for topic, partitions in self._given[member_id].items() if topic in wanted}
            self._made[number] = backwards(kept)
            for topic, partitions in kept.items():
                self._counts[number] += len(partitions)
                for index in partitions:
                    self._owners[topic][index] = number
                yield from self._pause(len(partitions))

    def _move(self, topic: bytes, index: int, to: int) -> None:
        owner = self._owners[topic][index]
        if owner != FREE:
            del self._made[owner][topic][index]
            if not self._made[owner][topic]:
                del self._made[owner][topic]
            self._counts[owner] -= 1
        give(self._made[to], topic, index)
        self._owners[topic][index] = to
        self._counts[to] += 1

    def _balance(self) -> Generator[None, Any, None]:
        topics = self._in_order(topic for topic, members in self._subscribers.items() if len(members) >= 2)
        last_changed: bytes | None = None
        for _ in range(ROUNDS):
            for topic in topics:
                if topic == last_changed:
                    return  # a whole round has changed no topic
                if self._balance_topic(topic) or last_changed is None:
                    last_changed = topic
                yield from self._pause(self._weight(topic))

    def _balance_topic(self, topic: bytes) -> int:
        """Move partitions of one topic to members with fewer partitions. Returns the number of moves."""
        balancer = _Balancer(self._counts, self._subscribers[topic])
        if balancer.imbalance <= 1:
            return 0
        owners = self._owners[topic]
        to_give: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            to_give.setdefault(owner, []).append(index)
        moved = 0
        while not balancer.balanced:
            giver = balancer.most()
            while giver is not None and not to_give.get(giver):
                balancer.exclude()
                giver = balancer.most()
            if giver is None:
                break
            index = to_give[giver].pop()
            taker = balancer.least()
            if balancer.balanced:
                break
            self._move(topic, index, taker)
            moved += 1
        return moved
