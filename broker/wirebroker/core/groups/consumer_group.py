"""One consumer group of KIP-848: its members, its epochs, and its target assignment.

This is Kafka's ConsumerGroup. The class holds the state; `consumer_heartbeats` computes the result of each request and stores
it here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.declare import Message
from wirebroker.common.slices import after
from wirebroker.core.groups.assignors import NOTHING, Partitions
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.consumer_log import FORMAT, REGEX_KEY, regex_tombstones
from wirebroker.core.groups.consumer_member import NOT_OWNED, ConsumerMember, Owned
from wirebroker.core.groups.group import Where
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.java_order import TimelineOrder

CONSUMER = "consumer"


class Resolved(NamedTuple):
    """The topics that a regular expression matched at `time` (ms since the epoch).

    `created` is the number of topics that had been created before that time.
    """

    topics: frozenset[str]
    created: int
    time: int


class Subscriptions(NamedTuple):
    """The subscriptions of a group. `names` has the number of subscribers of each topic name, and `regexes` has the number of
    subscribers of each regular expression."""

    names: Counter[str]
    by_regex: Counter[str]
    """The number of regular expressions that match each topic."""
    regexes: Counter[str]

    def topics(self) -> set[str]:
        """Returns all topics to which at least one member subscribes."""
        return {*self.names, *self.by_regex}

    def same(self, members: int) -> bool:
        """Tells whether all members subscribe to the same topics (Kafka's HOMOGENEOUS). `members` is the number of members."""
        if not self.regexes:
            return all(self.names[topic] == members for topic in self.topics())
        if next(iter(self.regexes.values())) != members:
            return False
        return not self.names and all(count == 1 for count in self.by_regex.values())


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    kind = CONSUMER
    form = FORMAT
    member_class = ConsumerMember
    nothing = NOTHING

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.facts_version: int | None = None
        """The version of the cluster's metadata with which `facts` were last compared."""
        self.subscriptions = Subscriptions(Counter(), Counter(), Counter())
        self.same = True
        """Tells whether all members subscribed to the same topics after the last change of a member."""
        self.assignors: Counter[str] = Counter()
        self.resolved: dict[str, Resolved] = {}
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        self._owners: dict[tuple[bytes, int], int] = {}
        self._assignor_order = TimelineOrder()

    # Queries

    def preferred_assignor(self) -> str | None:
        """Returns the assignor that most members request, or None."""
        return most_wanted(self.assignors, self._assignor_order.of(self.assignors))

    @staticmethod
    def same_target(one: Partitions, other: Partitions) -> bool:
        """Tells whether two targets have the same partitions; the order does not matter."""
        return one == other or (
            one.keys() == other.keys() and all(set(held) == set(other[topic]) for topic, held in one.items())
        )

    def owner_epoch(self, topic_id: bytes, index: int) -> int:
        """Returns the epoch of the member that owns the partition, or NOT_OWNED if no member owns it."""
        return self._owners.get((topic_id, index), NOT_OWNED)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Returns the topics to which a member subscribes, by name or by its resolved regular expression."""
        matched = self.resolved.get(member.regex) if member.regex else None
        return member.topics | matched.topics if matched is not None else member.topics

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Tells whether another member still owns a partition of this member's target assignment."""
        return any(
            index not in member.assigned.get(topic, {}) and self.owner_epoch(topic, index) != NOT_OWNED
            for topic, indexes in self.targets.get(member.member_id, NOTHING).items()
            for index in indexes
        )

    def subscribes(self, topic: str) -> bool:
        return topic in self.subscriptions.names or topic in self.subscriptions.by_regex

    def has_since(self, member: ConsumerMember, where: Where) -> int | None:
        return member.assignment_epoch(where.topic_id, where.partition)

    def topics(self) -> set[str]:
        return self.subscriptions.topics()

    # The group after a change of a member

    def subscriptions_without(self, leaving: Iterable[ConsumerMember], joining: ConsumerMember | None = None) -> Subscriptions:
        """Returns the group's subscriptions as they will be when the members in `leaving` are removed and the member `joining`
        is added. Changes nothing."""
        names, by_regex, regexes = (counts.copy() for counts in self.subscriptions)
        for member in leaving:
            _count(names, member.topics, -1)
            _count(regexes, [member.regex] if member.regex else [], -1)
        if joining is not None:
            _count(names, joining.topics, 1)
            _count(regexes, [joining.regex] if joining.regex else [], 1)
        for regex, resolved in self.resolved.items():
            if self.subscriptions.regexes[regex] and not regexes[regex]:
                _count(by_regex, resolved.topics, -1)
        return Subscriptions(names, by_regex, +regexes)

    def regexes_with(self, old: ConsumerMember, new: ConsumerMember) -> Counter[str]:
        """Returns the counts of regular expressions as they will be when `new` replaces `old`."""
        regexes = self.subscriptions.regexes.copy()
        _count(regexes, [old.regex] if old.regex else [], -1)
        _count(regexes, [new.regex] if new.regex else [], 1)
        return +regexes

    def assignor_with(self, old: ConsumerMember, new: ConsumerMember) -> str | None:
        """Returns the assignor that most members will request when `new` replaces `old`, or None."""
        wanted = self.assignors.copy()
        in_order = self._assignor_order.of(self.assignors)
        _count(wanted, [old.assignor] if old.assignor else [], -1)
        if new.assignor is not None:
            if not wanted[new.assignor]:
                # "uniform" and "range" are in the same bucket of Kafka's table; HashMap.compute puts new entries in front.
                in_order = [new.assignor, *(name for name in in_order if name != new.assignor)]
            _count(wanted, [new.assignor], 1)
        return most_wanted(wanted, [name for name in in_order if wanted[name]])

    # Changes

    def update(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        super().update(member)
        self._recount(old, member)
        self.same = self.subscriptions.same(len(self.members))

    def remove(self, member_id: str) -> None:
        old = self.members[member_id]
        super().remove(member_id)
        self._recount(old, None)
        self.same = self.subscriptions.same(len(self.members))

    def _recount(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Update the counts and the owners of partitions, because `new` replaces `old`."""
        names, _, regexes = self.subscriptions
        for member, step in ((old, -1), (new, 1)):
            if member is None:
                continue
            _count(names, member.topics, step)
            _count(regexes, [member.regex] if member.regex else [], step)
            if member.assignor is not None:
                if step > 0 or self.assignors[member.assignor] > 1:
                    self._assignor_order.put(len(self.assignors))
                _count(self.assignors, [member.assignor], step)
            if member.classic is not None:
                self.classic_members += step
                _count(self.classic_protocols, [name for name, _ in member.classic.protocols], step)
            if step < 0:
                self._disown(member)
            else:
                self._own(member.assigned, member.epoch)
                self._own(member.revoking, member.epoch)

    def _disown(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic, indexes in owned.items():
                for index in indexes:
                    if self._owners.get((topic, index)) == member.epoch:
                        del self._owners[topic, index]

    def _own(self, owned: Owned, epoch: int) -> None:
        for topic, indexes in owned.items():
            for index in indexes:
                self._owners[topic, index] = epoch

    def resolve(self, regex: str, resolved: Resolved | None) -> None:
        """Remember the matches of a regular expression; with None, forget the matches."""
        old = self.resolved.pop(regex, None)
        by_regex = self.subscriptions.by_regex
        if old is not None:
            _count(by_regex, old.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(by_regex, resolved.topics, 1)

    def forget_unrecorded(self) -> None:
        """Compare the subscribed topics with `facts` again when the next member sends a heartbeat."""
        self.facts_version = None

    def change_times(self, changed: Callable[[int], int]) -> None:
        super().change_times(changed)
        for regex, resolved in list(self.resolved.items()):
            self.resolve(regex, resolved._replace(time=changed(resolved.time)))

    # Records

    def tombstones(self) -> list[CoordinatorRecord]:
        regexes = regex_tombstones(self.group_id, self.resolved)
        return [*self.log.member_tombstones(self.members), *regexes, *self.log.group_tombstones()]

    def all_records(self, hashed: int) -> Iterator[CoordinatorRecord | None]:
        """Yields the records of the whole group, with None where a slice ends. `hashed` is the hash of the group's topics."""
        log = self.log
        for member in self.members.values():
            yield log.metadata(member)
            yield from after(member.topics)
        yield log.epoch(self.epoch, hashed)
        for member_id, target in self.targets.items():
            yield log.target(member_id, target)
            yield from after(target)
        yield log.assignment(self.assignment_epoch, self.assigned_at)
        for member in self.members.values():
            yield log.current(member)
            yield from after(member.assigned)

    def replay_other(self, key: Message, value: Any) -> None:
        """Apply the record of a regular expression."""
        if isinstance(key, REGEX_KEY):
            resolved = None if value is None else Resolved(frozenset(value.topics), value.version, value.timestamp)
            self.resolve(key.regular_expression, resolved)


def most_wanted(counts: Counter[str], in_order: Iterable[str]) -> str | None:
    """Returns the name with the highest count, or None if there are no names. If counts are equal, the first name wins."""
    return max(in_order, key=lambda name: counts[name], default=None)


def _count(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        counts[name] += step
        if not counts[name]:
            del counts[name]
