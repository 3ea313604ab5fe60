"""One consumer group of KIP-848: its members, its epochs, and its target assignment.

This is Kafka's ConsumerGroup. It holds the state; `consumer_groups` computes the result of each request and stores it here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.core.groups.assignors import NOTHING, Partitions
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.java_order import TimelineOrder
from wirebroker.core.groups.members import NOT_OWNED, ConsumerMember, Owned
from wirebroker.core.groups.timed import TimedGroup

CONSUMER = "consumer"
EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
"""The states of a consumer group, as clients see them. They follow from its epochs and members."""
FIRST_EPOCH = 1

TopicFacts = Mapping[str, tuple[bytes, int]]
"""The ids and numbers of partitions of the existing topics that a group subscribes to."""


class Resolved(NamedTuple):
    """The topics that a regular expression matched at `time` (ms since the epoch), after so many had been created."""

    topics: frozenset[str]
    created: int
    time: int


class Subscriptions(NamedTuple):
    """Topic names and regular expressions, each with the number of members that subscribe to it."""

    names: Counter[str]
    by_regex: Counter[str]
    """Topics that regular expressions matched, each with the number of expressions."""
    regexes: Counter[str]

    def topics(self) -> set[str]:
        """All topics that a member subscribes to."""
        return {*self.names, *self.by_regex}

    def same(self, members: int) -> bool:
        """Whether all of `members` members subscribe to the same topics (Kafka's HOMOGENEOUS)."""
        if not self.regexes:
            return all(self.names[topic] == members for topic in self.topics())
        if next(iter(self.regexes.values())) != members:
            return False
        return not self.names and all(count == 1 for count in self.by_regex.values())


@dataclass(slots=True)
class Written:
    """The last written state of a group: members, targets, its two epochs, and the matches of regular expressions."""

    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    epoch: int | None = None
    assignment_epoch: int | None = None
    resolved: dict[str, Resolved] = field(default_factory=dict)
    of_group: tuple[int, int, int, TopicFacts] | None = None
    """The group's two epochs, the time of its last assignment, and its facts, at the last write."""


class ConsumerGroup(TimedGroup):
    """A consumer group."""

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch for which `targets` were computed."""
        self.assigned_at = 0
        """The time of that, in ms since the epoch; 0 if it never happened."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        self.facts: TopicFacts = {}
        """The facts about the topics when the epoch last rose (Kafka keeps a hash of them)."""
        self.facts_version: int | None = None
        """The version of the cluster's metadata at which `facts` were last compared with it."""
        self.subscriptions = Subscriptions(Counter(), Counter(), Counter())
        self.same = True
        """Whether all members subscribe to the same topics, as of the last change of a member."""
        self.assignors: Counter[str] = Counter()
        self.resolved: dict[str, Resolved] = {}
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        self.touched: dict[str, None] = {}
        """The members that may differ from their last records, in order."""
        self.written = Written()
        self.prelude: list[CoordinatorRecord] = []
        """For a group that replaces another one: records that precede its own in the same batch."""
        self._owners: dict[tuple[bytes, int], int] = {}
        self._member_order = TimelineOrder()
        self._assignor_order = TimelineOrder()

    # Queries

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        if all(member.reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return STABLE
        return RECONCILING

    def in_order(self) -> list[str]:
        """The ids of the members in the order of Kafka's hash table."""
        return self._member_order.of(self.members)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this group.instance.id. (A member that takes another instance also remains under the first one.)"""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for; None if no member asks for one."""
        return most_wanted(self.assignors, self._assignor_order.of(self.assignors))

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """The target of a member; a static member is found by its instance, because its id may be new."""
        if instance_id is not None:
            return self.targets.get(self.static_members.get(instance_id, ""), NOTHING)
        return self.targets.get(member_id, NOTHING)

    def owner_epoch(self, topic_id: bytes, index: int) -> int:
        """The epoch of the member that owns the partition, or NOT_OWNED."""
        return self._owners.get((topic_id, index), NOT_OWNED)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, by name or by its regular expression if that is resolved."""
        matched = self.resolved.get(member.regex) if member.regex else None
        return member.topics | matched.topics if matched is not None else member.topics

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of this member's target."""
        return any(
            index not in member.assigned.get(topic, {}) and self.owner_epoch(topic, index) != NOT_OWNED
            for topic, indexes in self.targets.get(member.member_id, NOTHING).items()
            for index in indexes
        )

    def commit_error(self, member_id: str, epoch: int, version: int | None, where: Iterable[tuple[bytes, int]]) -> ErrorCode:
        """The error if a member must not commit offsets of these partitions (topic id, index) at this epoch, or NONE.

        `version` is that of OffsetCommit, None for a transactional commit. An old epoch is accepted for partitions that the
        member has owned since then, because the answer with the new epoch may be in flight.
        """
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and version is not None and version < 9:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return ErrorCode.NONE
        if epoch < member.epoch:
            since = [member.assignment_epoch(topic_id, index) for topic_id, index in where]
            if all(assigned is not None and epoch >= assigned for assigned in since):
                return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """The error if a client must not see the group's offsets, or NONE. A client without a member id may."""
        if member_id is None:
            return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka looks up null and fails
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    # The group after a change of a member

    def subscriptions_with(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Subscriptions:
        """The subscriptions if `new` replaced `old`."""
        return self.subscriptions_without([] if old is None else [old], new)

    def subscriptions_without(self, leaving: Iterable[ConsumerMember], joining: ConsumerMember | None = None) -> Subscriptions:
        """The subscriptions without some members, and with another one; unused topics are removed."""
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
        """The regular expressions if `new` replaced `old`."""
        regexes = self.subscriptions.regexes.copy()
        _count(regexes, [old.regex] if old.regex else [], -1)
        _count(regexes, [new.regex] if new.regex else [], 1)
        return +regexes

    def assignor_with(self, old: ConsumerMember, new: ConsumerMember) -> str | None:
        """The assignor that most members would ask for if `new` replaced `old`."""
        wanted = self.assignors.copy()
        in_order = self._assignor_order.of(self.assignors)
        _count(wanted, [old.assignor] if old.assignor else [], -1)
        if new.assignor is not None:
            if not wanted[new.assignor]:
                # "uniform" and "range" share a bucket of Kafka's table, and HashMap.compute puts new entries in front.
                in_order = [new.assignor, *(name for name in in_order if name != new.assignor)]
            _count(wanted, [new.assignor], 1)
        return most_wanted(wanted, [name for name in in_order if wanted[name]])

    # Changes

    def update(self, member: ConsumerMember) -> None:
        """Add a member, or replace one that has changed."""
        old = self.members.get(member.member_id)
        self._member_order.put(len(self.members))
        self.members[member.member_id] = member
        self._member_order.put(len(self.members))  # Kafka writes the member's own data first, then its assignment
        self._recount(old, member)
        self.touched[member.member_id] = None
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.same = self.subscriptions.same(len(self.members))

    def remove(self, member_id: str) -> None:
        """Remove a member, its assignment and its target."""
        old = self.members.pop(member_id)
        self.touched[member_id] = None
        self.targets.pop(member_id, None)
        self._recount(old, None)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)
        self.same = self.subscriptions.same(len(self.members))

    def _recount(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Update the counts over all members."""
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

    def take_targets(self, made: Mapping[str, Partitions]) -> None:
        """Set a new target for every member. A target that stays the same keeps its order."""
        for member_id in self.members:
            given, before = made.get(member_id, NOTHING), self.targets.get(member_id)
            if before is None or not _same(given, before):
                self.targets[member_id] = given
                self.touched[member_id] = None

    def resolve(self, regex: str, resolved: Resolved | None) -> None:
        """Remember the matches of a regular expression; with None, forget them."""
        old = self.resolved.pop(regex, None)
        by_regex = self.subscriptions.by_regex
        if old is not None:
            _count(by_regex, old.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(by_regex, resolved.topics, 1)

    def revert(self) -> None:
        """Return to the last written state, because later changes could not be written down; no client has seen them."""
        written, touched = self.written, list(self.touched)
        if written.of_group is None:
            return
        for member_id in touched:
            if member_id in self.members and member_id not in written.members:
                self.remove(member_id)
        for member_id in touched:
            if member_id in written.members:
                self.update(written.members[member_id])
                self.targets.pop(member_id, None)
                if member_id in written.targets:
                    self.targets[member_id] = written.targets[member_id]
        for regex in {*self.resolved, *written.resolved}:
            self.resolve(regex, written.resolved.get(regex))
        self.epoch, self.assignment_epoch, self.assigned_at, self.facts = written.of_group
        self.facts_version = None
        self.touched.clear()


def _same(one: Partitions, other: Partitions) -> bool:
    return one == other or (one.keys() == other.keys() and all(set(held) == set(other[topic]) for topic, held in one.items()))


def most_wanted(counts: Counter[str], in_order: Iterable[str]) -> str | None:
    """The name with the highest count; the first of several in this order."""
    return max(in_order, key=lambda name: counts[name], default=None)


def _count(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        counts[name] += step
        if not counts[name]:
            del counts[name]
