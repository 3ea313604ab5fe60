"""The server-side assignors, "uniform" and "range". The assignors run in slices.

The assignors compute the same assignment as Kafka's UniformAssignor and RangeAssignor, if the former assignment is the same.
Where Kafka's result depends on the order of Java's hash tables, the assignors use the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple

from wirebroker.common.slices import TOPICS, after, pauses, weighted_pauses
from wirebroker.core.groups.uniform_mixed import Backwards, MixedAssignment, backwards, forwards, give
from wirebroker.core.java_order import buckets_for, buckets_of_copy, hash_order, set_of_numbers, text_order, uuid_hash

Partitions = Mapping[bytes, tuple[int, ...]]
"""The partitions by topic id, in the order of Java's HashSet."""
NOTHING: Partitions = {}
Targets = dict[str, Partitions]
"""The assigned partitions by member id."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it: the ids of the topics that it subscribes to, and its last assignment."""

    instance_id: str | None
    topics: Sequence[bytes]
    given: Partitions


class Group(NamedTuple):
    """An assignor's input: members in the order of Kafka's hash table, and the number of partitions of each topic.

    `same` tells whether all members subscribe to the same topics. `taken` are the partitions of the last assignment, by topic
    id.
    """

    members: Mapping[str, Subscriber]
    sizes: Mapping[bytes, int]
    same: bool
    taken: Mapping[bytes, Set[int]]


def as_assignment(given: Mapping[bytes, Iterable[int]]) -> Generator[None, Any, Partitions]:
    """Returns an assignment in the form in which Kafka reads it from its log: without empty topics, in the order of Java's hash
    tables.
    """
    pause = pauses(TOPICS)
    made: dict[bytes, tuple[int, ...]] = {}
    for topic in hash_order([topic for topic in given if given[topic]], uuid_hash, buckets_for(len(given))):
        made[topic] = set_of_numbers(given[topic])
        yield from pause()
    return made


def _as_assignments(made: Mapping[str, Backwards]) -> Generator[None, Any, Targets]:
    targets: Targets = {}
    pause = weighted_pauses()
    for member_id, partitions in made.items():
        targets[member_id] = yield from as_assignment(forwards(partitions))
        yield from pause(len(partitions))
    return targets


def uniform(group: Group) -> Generator[None, Any, Targets]:
    """Balance the partitions: if possible, no member has two partitions more than another member. Move as few partitions as
    possible."""
    if not group.members:
        return {}
    if group.same:
        return (yield from _uniform_same(group))
    topics = {member_id: member.topics for member_id, member in group.members.items()}
    given = {member_id: member.given for member_id, member in group.members.items()}
    made = yield from MixedAssignment(topics, given, group.sizes).build()
    return (yield from _as_assignments(made))


def _uniform_same(group: Group) -> Generator[None, Any, Targets]:
    first = next(iter(group.members.values()))
    topics = hash_order(first.topics, uuid_hash, buckets_of_copy(len(first.topics)))
    if not topics:
        return {}
    yield from after(topics)
    free: list[tuple[bytes, int]] = []
    pause = weighted_pauses()
    for topic in topics:
        taken = group.taken.get(topic, set())
        free += [(topic, i) for i in range(group.sizes[topic]) if i not in taken]
        yield from pause(group.sizes[topic])
    least, extra = divmod(sum(group.sizes[topic] for topic in topics), len(group.members))
    wanted = frozenset(topics)
    made: dict[str, Partitions] = {}
    changed: dict[str, Backwards] = {}
    unfilled: list[tuple[str, int]] = []
    for i, (member_id, member) in enumerate(group.members.items()):
        may_have_extra = extra > 0
        kept, dropped, quota = _keep(member.given, wanted, least + may_have_extra)
        made[member_id] = member.given
        if kept is not None:
            changed[member_id] = backwards(kept)
        yield from pause(len(member.given))
        free += dropped
        if quota > 0 and may_have_extra and len(group.members) - i > extra:
            quota -= 1  # enough members are left, so a later member gets the extra partition
            may_have_extra = False
        if quota > 0:
            unfilled.append((member_id, quota))
        extra -= may_have_extra
    left = iter(free)
    for member_id, quota in unfilled:
        for topic, index in islice(left, quota):
            if member_id not in changed:
                changed[member_id] = backwards(made[member_id])
            give(changed[member_id], topic, index)
            yield from pause(1)
    return made | (yield from _as_assignments(changed))


def _keep(
    given: Partitions, wanted: frozenset[bytes], quota: int
) -> tuple[dict[bytes, Sequence[int]] | None, list[tuple[bytes, int]], int]:
    """Returns three values: the partitions that a member keeps, the partitions that it loses, and how many more it may get.

    If the first value is None, the member keeps all its partitions. So nothing is copied for most members of a large group.
    """
    count = sum(map(len, given.values()))
    if count <= quota and wanted.issuperset(given):
        return None, [], quota - count
    kept: dict[bytes, Sequence[int]] = {}
    dropped = []
    for topic, partitions in given.items():
        if topic not in wanted:
            continue
        stay = partitions[:quota]
        quota -= len(stay)
        dropped += [(topic, i) for i in partitions[len(stay) :]]
        if stay:
            kept[topic] = stay
    return kept, dropped, quota


def by_range(group: Group) -> Generator[None, Any, Targets]:
    """Give each subscriber of a topic a range of consecutive partitions, static members first."""

    def order(member_id: str) -> tuple[bool, bytes]:
        instance_id = group.members[member_id].instance_id
        return instance_id is None, text_order(member_id if instance_id is None else instance_id)

    in_turn = sorted(group.members, key=order)
    subscribers: dict[bytes, list[str]] = {}
    pause = weighted_pauses()
    for member_id in in_turn:
        # As in Kafka, if all members subscribe to the same topics, the topics have the order of the first member's topics.
        for topic in group.members[in_turn[0] if group.same else member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
            yield from pause(1)
    made: dict[tuple[str, bytes], range] = {}
    for topic, members in subscribers.items():
        quota, extra = divmod(group.sizes[topic], len(members))
        start = 0
        for i, member_id in enumerate(members):
            end = start + quota + (i < extra)
            made[member_id, topic] = range(start, end)
            start = end
            yield from pause(1)
    targets: Targets = {}
    for member_id in in_turn:
        topics = group.members[in_turn[0] if group.same else member_id].topics
        given = {topic: made[member_id, topic] for topic in topics if (member_id, topic) in made}
        targets[member_id] = yield from as_assignment(given)
        yield from pause(len(given))
    return targets


ASSIGNORS: dict[str, Callable[[Group], Generator[None, Any, Targets]]] = {"uniform": uniform, "range": by_range}
"""The assignors by their names in requests and in group.consumer.assignors."""
