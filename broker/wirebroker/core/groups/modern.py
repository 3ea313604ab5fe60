"""The common part of consumer, share and streams groups (Kafka's ModernGroup).

The coordinator computes the target assignment of each member. The heartbeat responses name the partitions that a member gets,
and the partitions that it must give up. `modern_heartbeats` handles the heartbeats, and `modern_log` has the records.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.core.cluster import Topic
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.group import AnyGroup, Committer, Where
from wirebroker.core.groups.modern_log import Format, GroupRecords
from wirebroker.core.java_order import TimelineOrder
from wirebroker.core.purgatory import Action, Timer
from wirebroker.core.releases.changes import since

FREES_INSTANCES = since("4.4", "a consumer that changes its group.instance.id frees the old id")

FIRST_EPOCH = 1
EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
"""The states of a group, as clients see them. The coordinator derives a group's state from the group's epochs and its members'
epochs."""
SESSION, REBALANCE, JOIN, SYNC = "session", "rebalance", "join", "sync"
"""The kinds of a member's timers."""
TopicFacts = Mapping[str, tuple[bytes, int]]
"""For each subscribed topic that exists: the topic id and the number of partitions."""
CHANGED: TopicFacts = {"": (bytes(16), 0)}
"""A placeholder for facts that have changed. Real facts are never equal to this value, because no topic has an empty name."""


def topic_facts(names: Iterable[str], topics: Mapping[str, Topic]) -> dict[str, tuple[bytes, int]]:
    """Returns the id and the number of partitions of each topic that exists."""
    return {name: (topics[name].topic_id, len(topics[name].partitions)) for name in names if name in topics}


LEAVES = -1
"""The member epoch in the heartbeat of a member that leaves."""
LEAVES_FOR_A_WHILE = -2
"""The member epoch in the heartbeat of a static member that leaves temporarily."""


class MemberState(Enum):
    """The state of a member's reconciliation."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED = 1
    """The member must give up partitions or tasks, and has not confirmed this yet."""
    UNRELEASED = 2
    """The member waits for partitions or tasks that other members still own."""


class ModernMember(Struct, frozen=True):
    """A member of a group. The object is immutable: to change a member, the group replaces its object. Timeouts are in ms."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    instance_id: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Any = {}
    revoking: Any = {}
    """The partitions or tasks that the member must give up."""

    @property
    def speaks_classic(self) -> bool:
        """Tells whether the member uses the classic protocol."""
        return False

    def reconciled_to(self, epoch: int) -> bool:
        """Tells whether the member has reached the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(self, epoch: int, state: MemberState, assigned: Any, revoking: Any) -> Self:
        """Returns a copy of the member with this epoch, state and assignment. The copy's previous epoch is the member's present
        epoch."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)

    def away(self) -> Self:
        """Returns a copy of this static member, marked as temporarily away."""
        return replace(self, epoch=LEAVES_FOR_A_WHILE)

    def has_metadata_of(self, other: ModernMember) -> bool:
        """Tells whether both members have the same values in the fields that a member sends. Then their records would be the
        same."""
        return _same(self, other, (each for each in self.__struct_fields__ if each not in ASSIGNMENT))

    def has_assignment_of(self, other: ModernMember) -> bool:
        """Tells whether both members have the same epochs and assignment. Then their records would be the same."""
        return _same(self, other, ASSIGNMENT)


ASSIGNMENT = ("epoch", "previous_epoch", "state", "assigned", "revoking")
"""The fields in the record of a member's epochs and assignment. The member sends all other fields; they are in another
record."""


def _same(one: ModernMember, other: ModernMember, names: Iterable[str]) -> bool:
    return all((held := getattr(one, each)) is (also := getattr(other, each)) or held == also for each in names)


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")
"""The target assignment of a member."""


class ModernGroup(AnyGroup, Generic[M, T]):
    """A consumer group (KIP-848), share group (KIP-932) or streams group (KIP-1071)."""

    form: ClassVar[Format]
    """The kinds of the group's records."""
    member_class: ClassVar[type[Any]]
    nothing: ClassVar[Any]
    """The empty target."""

    def __init__(self, group_id: str, changes: Changes) -> None:
        self.group_id = group_id
        self.protocol_type = self.kind
        self.log = GroupRecords(group_id, self.form)
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch for which `targets` were computed."""
        self.assigned_at = 0
        """The time of the last assignment, in ms since the epoch; 0 before the first assignment."""
        self.members: dict[str, M] = {}
        self.static_members: dict[str, str] = {}
        """The member ids of the static members, by group.instance.id."""
        self.targets: dict[str, T] = {}
        self.facts: TopicFacts = {}
        """The subscribed topics at the last rise of the group's epoch. Kafka keeps a hash of these topics instead."""
        self.recorded_hash = 0
        """The hash of the subscribed topics, as it stands in the group's record in the log."""
        self._changes = changes
        self._timers: dict[tuple[str, str], Timer] = {}
        self._member_order = TimelineOrder()

    # Queries

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        reconciled = all(member.reconciled_to(self.assignment_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    @property
    def generation_or_epoch(self) -> int:
        return self.epoch

    def static_member(self, instance_id: str | None) -> M | None:
        """Returns the member with this group.instance.id.

        Before 4.4, if a member has changed its group.instance.id, the member is also found by its old id.
        """
        return self.members.get(self.static_members.get(instance_id, "")) if instance_id is not None else None

    def in_order(self) -> list[str]:
        """Returns the member ids in the order of Kafka's hash table."""
        return self._member_order.of(self.members)

    def target_of(self, member: M) -> T:
        """Returns the target assignment of a member. A static member is found by its group.instance.id, because its member id
        may be new."""
        nothing: T = self.nothing
        by_instance = member.instance_id is not None
        known = self.static_members.get(member.instance_id or "", "") if by_instance else member.member_id
        return self.targets.get(known, nothing)

    @staticmethod
    def same_target(one: T, other: T) -> bool:
        """Tells whether two targets have the same partitions or tasks."""
        return one == other

    def changed(self, made: Mapping[str, T], held: Mapping[str, T]) -> dict[str, T]:
        """Returns the target assignments in `made` that differ from the assignments in `held`. A different order of partitions
        is not a difference."""
        return {each: given for each, given in made.items() if each not in held or not self.same_target(given, held[each])}

    def commit_error(self, by: Committer, version: int | None, where: Iterable[Where], now: int) -> ErrorCode:
        """Returns the error if the client `by` must not commit offsets of these partitions, else NONE.

        A commit with an old epoch is accepted for partitions that the member has owned since that epoch, because the response
        with the new epoch may still be in flight.
        """
        transactional, epoch = version is None, by.generation
        if transactional and epoch == -1 and by.anonymous:
            return ErrorCode.NONE
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(by.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.speaks_classic and version is not None and version < 9:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return ErrorCode.NONE
        if epoch < member.epoch:
            since = [self.has_since(member, each) for each in where]
            if all(assigned is not None and epoch >= assigned for assigned in since):
                return ErrorCode.NONE
        return _stale(member)

    def has_since(self, member: M, where: Where) -> int | None:
        """Returns the epoch at which the partition was assigned to the member, or None if the member does not own the
        partition."""
        return None

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Returns the error if a client must not see the group's offsets, else NONE. A client without a member id may see the
        offsets."""
        if member_id is None:
            return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's code fails on the null id
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else _stale(member)

    @abstractmethod
    def topics(self) -> Iterable[str]:
        """Returns the topics to which the group subscribes."""

    # Changes

    def update(self, member: M) -> None:
        """Add a member, or replace a member that has changed."""
        old = self.members.get(member.member_id)
        if old is not None and old.instance_id is not None and FREES_INSTANCES.of(self._changes.release()):
            self.static_members.pop(old.instance_id, None)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._member_order.put(len(self.members))
        self.members[member.member_id] = member
        self._member_order.put(len(self.members))  # Kafka puts a member into its map once for each of the member's two records

    def remove(self, member_id: str) -> None:
        """Remove a member with its assignment and its target assignment."""
        gone = self.members.pop(member_id)
        if gone.instance_id is not None and self.static_members.get(gone.instance_id) == member_id:
            del self.static_members[gone.instance_id]
        self.targets.pop(member_id, None)

    def forget_unrecorded(self) -> None:
        """Forget the state that the group's records do not contain."""

    def change_times(self, changed: Callable[[int], int]) -> None:
        if self.assigned_at:
            self.assigned_at = changed(self.assigned_at)

    # Records

    def tombstones(self) -> list[CoordinatorRecord]:
        return [*self.log.member_tombstones(self.members), *self.log.group_tombstones()]

    def epoch_record(self, epoch: int, hashed: int) -> CoordinatorRecord:
        """Returns the record of the group's next epoch. `hashed` is the hash of the group's topics."""
        return self.log.epoch(epoch, hashed)

    def replay(self, key: Message, value: Any) -> None:
        """Apply a record from the log."""
        if isinstance(key, self.form.member_keys):
            self._replay_member(key, key.member_id, value)
        elif value is None:
            self.replay_other(key, value)
        elif isinstance(key, self.form.assignment.key):
            self.assignment_epoch, self.assigned_at = value.assignment_epoch, value.assignment_timestamp
        else:
            if isinstance(key, self.form.epoch.key):
                self.epoch, self.recorded_hash = value.epoch, value.metadata_hash
            self.replay_other(key, value)

    def _replay_member(self, key: Message, member_id: str, value: Any) -> None:
        form = self.form
        member = self.members.get(member_id) or self.member_class(member_id)
        if isinstance(key, form.target.key):
            self.targets.pop(member_id, None)
            if value is not None:
                self.targets[member_id] = form.target.read(value)
        elif value is not None:
            kind = form.current if isinstance(key, form.current.key) else form.metadata
            self.update(kind.read(member, value))
        elif isinstance(key, form.metadata.key) and member_id in self.members:
            self.remove(member_id)

    @abstractmethod
    def replay_other(self, key: Message, value: Any) -> None:
        """Apply a record that only this type of group has, or those fields of a common record that only this type has."""

    # Timers

    def set_timer(self, kind: str, member_id: str, when: int, action: Action) -> None:
        """Run the action at `when` (ms since the epoch). If a change of the group is running at that time, the action waits
        until the change has ended. The timer replaces the member's earlier timer of this kind.
        """
        self.cancel_timer(kind, member_id)
        timers = self._changes.timers
        timer = timers.at(when, lambda now: timers.work(self._run(kind, member_id, timer, action, now)))
        self._timers[kind, member_id] = timer

    def _run(self, kind: str, member_id: str, timer: Timer, action: Action, now: int) -> Iterator[None]:
        yield from self._changes.settled([self.group_id])
        if self._timers.get((kind, member_id)) is timer:  # the change may have cancelled the timer
            action(now)

    def has_timer(self, kind: str, member_id: str) -> bool:
        running = self._timers.get((kind, member_id))
        return running is not None and running.action is not None

    def cancel_timer(self, kind: str, member_id: str) -> None:
        if (timer := self._timers.pop((kind, member_id), None)) is not None:
            timer.cancel()

    def unload(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def die(self, now: int) -> None:
        self.unload()


def _stale(member: ModernMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
