"""One consumer group of KIP-848: its members, its epochs, and the assignment that its members are moved to.

Kafka's ConsumerGroup. Nothing here decides: `consumer_groups` works out what a request comes to and writes it down here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.core.groups.assignors import NOTHING, Partitions
from wirebroker.core.groups.consumer_log import Written
from wirebroker.core.groups.java_order import TimelineOrder
from wirebroker.core.groups.members import NOT_OWNED, ConsumerMember, Owned
from wirebroker.core.purgatory import Action, Timer, Timers

CONSUMER = "consumer"
EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
"""The states of a consumer group, as they are shown. They follow from its epochs and members."""
FIRST_EPOCH = 1

TopicFacts = Mapping[str, tuple[bytes, int]]
"""Of the topics that a group subscribes to and that exist: their ids and how many partitions they have."""


class Resolved(NamedTuple):
    """The topics that a regular expression matched at `time` (ms since the epoch), when so many had been created."""

    topics: frozenset[str]
    created: int
    time: int


class Subscriptions(NamedTuple):
    """Who subscribes to what: topic names and regular expressions, each with how many members."""

    names: Counter[str]
    by_regex: Counter[str]
    """Topics that regular expressions matched, with how many expressions did."""
    regexes: Counter[str]

    def topics(self) -> set[str]:
        """Every topic that somebody subscribes to."""
        return {*self.names, *self.by_regex}

    def same(self, members: int) -> bool:
        """Whether all of so many members subscribe to the same topics (Kafka's HOMOGENEOUS)."""
        if not self.regexes:
            return all(self.names[topic] == members for topic in self.topics())
        if next(iter(self.regexes.values())) != members:
            return False
        return not self.names and all(count == 1 for count in self.by_regex.values())


class ConsumerGroup:
    """A consumer group."""

    def __init__(self, group_id: str, timers: Timers) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch for which `targets` were worked out."""
        self.assigned_at = 0
        """When that was, in ms since the epoch; 0 if it never was."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        self.facts: TopicFacts = {}
        """What was known of the topics when the epoch last rose (Kafka keeps a hash of it)."""
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
        """The members that may differ from what was last written of them, in order."""
        self.written = Written()
        self.prelude: list[CoordinatorRecord] = []
        """Of a group that takes another one's place: records that go before its own, in the same batch."""
        self._owners: dict[tuple[bytes, int], int] = {}
        self._member_order = TimelineOrder()
        self._assignor_order = TimelineOrder()
        self._timers = timers
        self._pending: dict[tuple[str, str], Timer] = {}

    # What it shows

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
        """The ids of the members in the order of Kafka's table of them."""
        return self._member_order.of(self.members)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this group.instance.id. (A member that took another instance leaves the first one behind.)"""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for; None if nobody asks for one."""
        return most_wanted(self.assignors, self._assignor_order.of(self.assignors))

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """What a member should have; a static one by its instance, since it may have a new id."""
        if instance_id is not None:
            return self.targets.get(self.static_members.get(instance_id, ""), NOTHING)
        return self.targets.get(member_id, NOTHING)

    def owner_epoch(self, topic_id: bytes, index: int) -> int:
        """The epoch of the member that holds the partition; NOT_OWNED if none does."""
        return self._owners.get((topic_id, index), NOT_OWNED)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, by name or through its regular expression if that is resolved."""
        matched = self.resolved.get(member.regex) if member.regex else None
        return member.topics | matched.topics if matched is not None else member.topics

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something that the member should have is still held by somebody."""
        return any(
            index not in member.assigned.get(topic, {}) and self.owner_epoch(topic, index) != NOT_OWNED
            for topic, indexes in self.targets.get(member.member_id, NOTHING).items()
            for index in indexes
        )

    def commit_error(self, member_id: str, epoch: int, version: int | None, where: Iterable[tuple[bytes, int]]) -> ErrorCode:
        """Why a member may not commit offsets of these partitions (topic id, index) at this epoch.

        `version` is that of OffsetCommit, None for a transactional commit. An epoch that is over will do for partitions
        that the member has had since, as the answer with the new one may be under way.
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
        """Why somebody may not see the group's offsets; who does not say who it is may."""
        if member_id is None:
            return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka looks for null and fails
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    # What would be if a member changed

    def subscriptions_with(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Subscriptions:
        """Who would subscribe to what if `new` took the place of `old`."""
        return self.subscriptions_without([] if old is None else [old], new)

    def subscriptions_without(self, leaving: Iterable[ConsumerMember], joining: ConsumerMember | None = None) -> Subscriptions:
        """Who would subscribe to what without these, and with somebody else; what nobody uses is not counted."""
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

    def assignor_with(self, old: ConsumerMember, new: ConsumerMember) -> str | None:
        """The assignor that most members would ask for if `new` took the place of `old`."""
        wanted = self.assignors.copy()
        in_order = self._assignor_order.of(self.assignors)
        _count(wanted, [old.assignor] if old.assignor else [], -1)
        if new.assignor is not None:
            if not wanted[new.assignor]:
                # "uniform" and "range" share a bucket of Kafka's table, and HashMap.compute puts what is new in front.
                in_order = [new.assignor, *(name for name in in_order if name != new.assignor)]
            _count(wanted, [new.assignor], 1)
        return most_wanted(wanted, [name for name in in_order if wanted[name]])

    # What is written down

    def update(self, member: ConsumerMember) -> None:
        """A member is new or has changed."""
        old = self.members.get(member.member_id)
        self._member_order.put(len(self.members))
        self.members[member.member_id] = member
        self._member_order.put(len(self.members))  # Kafka writes down first what it says, then what it is given
        self._recount(old, member)
        self.touched[member.member_id] = None
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.same = self.subscriptions.same(len(self.members))

    def remove(self, member_id: str) -> None:
        """A member is gone, and what it had and should have had."""
        old = self.members.pop(member_id)
        self.touched[member_id] = None
        self.targets.pop(member_id, None)
        self._recount(old, None)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)
        self.same = self.subscriptions.same(len(self.members))

    def _recount(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Bring up to date what is counted over all members."""
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
        """A new target for every member. One that is the same as before is kept with the order it has."""
        for member_id in self.members:
            given, before = made.get(member_id, NOTHING), self.targets.get(member_id)
            if before is None or not _same(given, before):
                self.targets[member_id] = given
                self.touched[member_id] = None

    def resolve(self, regex: str, resolved: Resolved | None) -> None:
        """Note what a regular expression matches; with None, forget it."""
        old = self.resolved.pop(regex, None)
        by_regex = self.subscriptions.by_regex
        if old is not None:
            _count(by_regex, old.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _count(by_regex, resolved.topics, 1)

    def revert(self) -> None:
        """Be again what was last written: what has changed since could not be, and nobody was told of it."""
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

    # Timers

    def set_timer(self, kind: str, member_id: str, when: int, action: Action) -> None:
        """Run the action at `when` (ms since the epoch), instead of what was set for this kind and member before."""
        self.cancel_timer(kind, member_id)
        self._pending[kind, member_id] = self._timers.at(when, action)

    def has_timer(self, kind: str, member_id: str) -> bool:
        """Whether a timer of this kind runs for the member."""
        running = self._pending.get((kind, member_id))
        return running is not None and running.action is not None

    def cancel_timer(self, kind: str, member_id: str) -> None:
        """Forget a timer, if there is one."""
        if (timer := self._pending.pop((kind, member_id), None)) is not None:
            timer.cancel()

    def cancel_timers(self) -> None:
        """Forget all timers: the group is gone, or the broker stopped."""
        for timer in self._pending.values():
            timer.cancel()
        self._pending.clear()


def _same(one: Partitions, other: Partitions) -> bool:
    return one == other or (one.keys() == other.keys() and all(set(held) == set(other[topic]) for topic, held in one.items()))


def most_wanted(counts: Counter[str], in_order: Iterable[str]) -> str | None:
    """The name with the highest count; of several the first in this order."""
    return max(in_order, key=lambda name: counts[name], default=None)


def _count(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        counts[name] += step
        if not counts[name]:
            del counts[name]
