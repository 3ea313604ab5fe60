"""Request handling shared by consumer, share and streams groups: heartbeats, timers, and the removal of members.

The rules come from Kafka's GroupMetadataManager. The result of a heartbeat (`Step`) is first computed, then written to the log,
then applied to the group. A request can be refused only before the result is applied, so a refused request changes nothing.
Requests about many topics run in slices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.common.java_texts import trim
from wirebroker.common.slices import after
from wirebroker.core.cluster import Cluster
from wirebroker.core.config_resources import group_number
from wirebroker.core.coordinator_errors import RETRY_MS
from wirebroker.core.groups.metadata_hash import metadata_hash
from wirebroker.core.groups.modern import (
    CHANGED,
    JOIN,
    LEAVES_FOR_A_WHILE,
    REBALANCE,
    SESSION,
    SYNC,
    MemberState,
    ModernGroup,
    ModernMember,
    TopicFacts,
    topic_facts,
)
from wirebroker.core.groups.registry import Registry
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import ByRelease, since

FOLLOWS_EMPTIED_GROUPS = since("4.4", "the first member of an emptied group gets partitions at once")
"""When the last member leaves, the epoch of the assignment (now empty) is also set to the group's new epoch."""
READMITS_STATIC_MEMBERS = since("4.4", "a static member can rejoin a consumer group that is full")
FIRST_EPOCH = ByRelease(0).then("4.3", 1, "a new consumer, share or streams group begins with epoch 1")

ABANDON = "The member must abandon all its partitions and rejoin."


class HeartbeatResult(NamedTuple):
    """The response to a heartbeat. `assigned` is None if the member already knows its assignment. The interval is in ms."""

    member_id: str
    epoch: int
    interval: int = 0
    assigned: Any = None


G = TypeVar("G", bound=ModernGroup[Any, Any])
M = TypeVar("M", bound=ModernMember)


class Step(Struct, Generic[G, M], kw_only=True):
    """The change that a member's heartbeat makes to a group. The change is computed first, and then written to the log."""

    group: G
    old: M
    """The member before the step. If the member replaces a static member, `old` is that static member with the new member
    id."""
    new: M
    epoch: int
    facts: TopicFacts
    replaces: str | None = None
    """The member id of the static member that the member replaces, or None."""
    targets: Mapping[str, Any] | None = None
    """The new target assignments of all members, or None if the step computes no target assignments."""
    moved: bool = False
    """Tells whether the step changed the member's assignment or epoch."""

    @property
    def rose(self) -> bool:
        """Tells whether the group's epoch rises."""
        return self.epoch != self.group.epoch

    @property
    def changes_nothing(self) -> bool:
        """Tells whether the step changes neither the member nor the group. Then no record is written."""
        known = self.group.members.get(self.new.member_id)
        return known is self.new and self.replaces is None and self.targets is None and not self.rose

    def changed_targets(self) -> dict[str, Any]:
        group, member_id = self.group, self.new.member_id
        held = group.targets
        if self.replaces not in (None, member_id):
            held = {**held, member_id: held.get(self.replaces, group.nothing)}
        return group.changed(self.targets or {}, held)

    def records(self, targets: Mapping[str, Any], cluster: Cluster, now: int) -> Iterator[CoordinatorRecord | None]:
        """Yields the records of the step in Kafka's order. Yields None where a slice ends. `targets` are the target assignments
        that the step changes."""
        group, new, log = self.group, self.new, self.group.log
        known = group.members.get(new.member_id)
        if self.replaces not in (None, new.member_id):
            known, kept = self.old, group.targets.get(self.replaces or "", group.nothing)
            yield from log.member_tombstones([self.replaces or ""])
            yield log.metadata(known)
            yield log.target(new.member_id, kept)
            yield log.current(known)
            yield from after(self.facts)
        if known is None or not new.has_metadata_of(known):
            yield log.metadata(new)
            yield from after(getattr(new, "topics", ()))
        yield from self.other_records()
        if self.rose:
            yield self.epoch_record(metadata_hash(self.facts, cluster))
        for member_id, given in targets.items():
            record = log.target(member_id, given)
            yield from after(self.facts)
            yield record
        if self.targets is not None:
            yield log.assignment(self.epoch, now)
        if known is None or not new.has_assignment_of(known):
            record = log.current(new)
            yield from after(self.facts)
            yield record

    def other_records(self) -> Iterable[CoordinatorRecord]:
        """Returns the records that only this type of group has."""
        return ()

    def epoch_record(self, hashed: int) -> CoordinatorRecord:
        """Returns the record of the group's next epoch. `hashed` is the hash of the group's topics."""
        return self.group.epoch_record(self.epoch, hashed)

    def apply(self, targets: Mapping[str, Any], now: int) -> None:
        """Change the group. `targets` are the target assignments that the step changes."""
        group, new = self.group, self.new
        if self.replaces is not None:
            kept = group.targets.get(self.replaces, group.nothing)
            group.remove(self.replaces)
            group.targets[new.member_id] = kept
        if group.members.get(new.member_id) != new:
            group.update(new)
        group.targets.update(targets)
        if self.targets is not None:
            group.assignment_epoch, group.assigned_at = self.epoch, now
        group.epoch, group.facts = self.epoch, self.facts


class ModernGroups(ABC, Generic[G, M]):
    """The groups of one type."""

    replaces_classic: ClassVar[bool] = True
    """Tells whether a new group may replace a classic group that has no members."""

    def __init__(self, registry: Registry, kind: type[G]) -> None:
        """`kind` is the class of the groups."""
        self.registry = registry
        self.changes = registry.changes
        self._cluster = registry.cluster
        self.kind = kind
        self.type = kind.kind
        """Kafka's name of the type."""

    # Settings

    @property
    def release(self) -> Release:
        """The release that the brokers run."""
        return self._cluster.configs.release

    def setting(self, group_id: str, name: str) -> int:
        """Returns the group's own value of a setting, else the broker's value."""
        configs = self._cluster.configs
        return group_number(configs.groups.get(group_id, {}), f"{self.type}.{name}", configs)

    @property
    def enabled(self) -> bool:
        """Tells whether group.coordinator.rebalance.protocols includes this type of group."""
        protocols = self._cluster.configs.value("group.coordinator.rebalance.protocols")
        return isinstance(protocols, list) and self.type in protocols

    # Finding

    def find(self, group_id: str, *, create: bool | None = None) -> G | Refusal:
        """Returns the group with this id, or a refusal if the group does not exist. With `create=True`, returns a new group
        instead of the refusal; the new group is not registered yet. With `create=False`, for a member that must not create the
        group, the refusal names the type of the group."""
        group = self.registry.groups.get(group_id)
        if isinstance(group, self.kind):
            return group
        if create and (group is None or (self.replaces_classic and group.kind == "classic" and group.is_empty)):
            made = self.kind(group_id, self.changes)
            made.epoch = made.assignment_epoch = FIRST_EPOCH.of(self.release)
            return made
        absent = f"Group {group_id} is not a {self.type} group."
        if group is None:
            absent = f"{'Group' if create is None else f'{self.type.capitalize()} group'} {group_id} not found."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, absent)

    def is_full(self, group: G, member_id: str, instance_id: str | None) -> Refusal | None:
        """Returns a refusal if a new member would make the group too large, else None. A static member that comes back does not
        count as new."""
        if member_id in group.members or (READMITS_STATIC_MEMBERS.of(self.release) and instance_id in group.static_members):
            return None
        largest = self._cluster.configs.integer(f"group.{self.type}.max.size")
        if len(group.members) < largest:
            return None
        message = f"The {self.type} group has reached its maximum capacity of {largest} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def epoch_error(self, member: M, epoch: int, owns_all: bool) -> Refusal | None:
        """Returns a refusal if the member epoch in a request is wrong, else None. The member's previous epoch is accepted, too,
        because the response with the present epoch may be lost. With the previous epoch, the member must own all partitions or
        tasks that its request lists (`owns_all`).
        """
        if epoch == member.epoch or (epoch == member.previous_epoch < member.epoch and owns_all):
            return None
        size, differs = "greater" if epoch > member.epoch else "smaller", ""
        if self.type == "share" and epoch < member.epoch:
            differs = f", and it does not match the previous member epoch ({member.previous_epoch})"
        return Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.type} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}){differs}. {ABANDON}",
        )

    def sender(
        self, group: G, member_id: str, instance_id: str | None, epoch: int, owns_all: Callable[[M], bool]
    ) -> tuple[M, str | None] | Refusal:
        """Returns two values. The first is the member that sent a heartbeat, or a new member if an unknown member joins. The
        second is the id of the static member that this member replaces, or None. `owns_all` tells whether a member owns all
        partitions or tasks that the request lists."""
        if gone := instance_gone(group, instance_id):
            return gone
        if epoch != 0:
            member: M | Refusal = known_member(group, member_id, instance_id)
            if isinstance(member, Refusal):
                return member
            return self.epoch_error(member, epoch, owns_all(member)) or (member, None)
        static = group.static_member(instance_id)
        if static is None:
            return group.members.get(member_id) or group.member_class(member_id), None
        if static.speaks_classic or static.epoch == LEAVES_FOR_A_WHILE:
            return replace(static, member_id=member_id, epoch=0, previous_epoch=0), static.member_id
        who = f"Static member {member_id} with instance id {instance_id}"
        owned = f"because the instance id is owned by {static.member_id} member."
        return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, f"{who} cannot join the group {owned}")

    # Targets

    def facts(self, names: Iterable[str]) -> dict[str, tuple[bytes, int]]:
        """Returns the id and the number of partitions of each topic that exists."""
        return topic_facts(names, self._cluster.topics)

    def too_soon(self, group: G, now: int) -> bool:
        """Tells whether less than the assignment interval has passed since the group's last assignment."""
        if self._cluster.configs.definitions.broker[f"group.{self.type}.assignment.interval.ms"].absent:
            return False
        interval = self.setting(group.group_id, "assignment.interval.ms")
        return bool(group.assigned_at and interval and now < group.assigned_at + interval)

    def compute_target(self, step: Step[G, M], now: int) -> Generator[None, Any, tuple[int, Any]]:
        """Returns two values: the epoch of the target assignment, and the member's target assignment. If the group's epoch has
        risen, the method computes the target assignments of all members again, but at most once in each assignment interval.
        """
        group = step.group
        if group.assignment_epoch >= step.epoch or self.too_soon(group, now):
            return group.assignment_epoch, group.target_of(step.new)
        step.targets = yield from self._assign(step)
        return step.epoch, step.targets[step.new.member_id]

    @abstractmethod
    def _assign(self, step: Any) -> Generator[None, Any, Mapping[str, Any]]:
        """Returns the target assignments of all members."""

    # Writing

    def write_down(self, step: Step[G, M], now: int) -> Generator[None, Any, ErrorCode]:
        """Write the step to the log, and apply the step to the group. If the write fails, the group does not change, and the
        error for the client is returned.

        If the member must give up partitions or tasks, a timer limits the time for this.
        """
        group = step.group
        if step.changes_nothing and self.registry.groups.get(group.group_id) is group:
            group.facts = step.facts
            return ErrorCode.NONE
        targets = step.changed_targets()
        if error := (yield from self.write(group, step.records(targets, self._cluster, now), now)):
            return error
        rose = step.rose
        step.apply(targets, now)
        if step.moved and not step.new.speaks_classic:
            if step.new.state is MemberState.UNREVOKED:
                self._await_revocation(group, step.new, now)
            else:
                group.cancel_timer(REBALANCE, step.new.member_id)
        if rose:
            self.registry.report(group)
        return ErrorCode.NONE

    def write(self, group: G, records: Iterable[CoordinatorRecord | None], now: int) -> Generator[None, Any, ErrorCode]:
        """Write records to the log and register the group. If the group replaces another group, that group's tombstones are
        written first."""
        before = self.registry.groups.get(group.group_id)
        prelude = before.tombstones() if before not in (None, group) else ()
        error = yield from self.registry.log_in_slices(group.group_id, chain(prelude, records), now)
        if not error and self.registry.enter(group, now):
            self._entered(group, now)
        return error

    def _entered(self, group: G, now: int) -> None:
        """Called when a new group has been registered."""

    # Timers

    def await_heartbeat(self, group: G, member_id: str, now: int, timeout: int | None = None) -> None:
        """Start the session timer: remove the member if it sends nothing within `timeout` ms, by default the group's session
        timeout."""
        silent = self.setting(group.group_id, "session.timeout.ms") if timeout is None else timeout
        self.fence_at(group, SESSION, member_id, now + silent)

    def _await_revocation(self, group: G, member: M, now: int) -> None:
        """Start the rebalance timer: remove the member if it does not give up its revoked partitions or tasks in time."""
        self.fence_at(group, REBALANCE, member.member_id, now + member.rebalance_timeout, member.epoch)

    def fence_at(self, group: G, kind: str, member_id: str, when: int, epoch: int | None = None) -> None:
        """Remove a member at `when` (ms since the epoch), unless the member has left before. If `epoch` is given, remove the
        member only if it is still at this epoch. If the removal cannot be written to the log, try again later.
        """

        def expire(now: int) -> None:
            member = group.members.get(member_id)
            if member is not None and epoch in (None, member.epoch) and self.fence(group, [member], now):
                self.fence_at(group, kind, member_id, now + RETRY_MS, epoch)

        group.set_timer(kind, member_id, when, expire)

    # Leaving

    def leave(
        self, group_id: str, member_id: str, instance_id: str | None, epoch: int, now: int
    ) -> Generator[None, Any, Refusal | None]:
        """Remove a member whose heartbeat has the epoch LEAVES, or mark a static member as temporarily away."""
        group = self.find(group_id)
        if isinstance(group, Refusal):
            return group
        member: M | Refusal = instance_gone(group, instance_id) or known_member(group, member_id, instance_id)
        if isinstance(member, Refusal):
            return member
        if instance_id is not None and epoch == LEAVES_FOR_A_WHILE:
            away = member.away()
            error = yield from self.write(group, [group.log.current(away)], now)
            if not error:
                group.update(away)
        else:
            error = self.fence(group, [member], now)
        return Refusal(error) if error else None

    def fence(self, group: G, leaving: Sequence[M], now: int) -> ErrorCode:
        """Remove these members. Returns the error for the client."""
        return self.remove(group, leaving, group.facts, [], now)

    def remove(
        self, group: G, leaving: Sequence[M], facts: TopicFacts, more: Sequence[CoordinatorRecord], now: int
    ) -> ErrorCode:
        """Remove these members. Raise the group's epoch, so that the next heartbeat computes a new target assignment. `facts`
        are the topics to which the remaining members subscribe. `more` has the tombstones of other state that is removed
        together with these members.

        If the records cannot be written, no member is removed, and the error for the client is returned.
        """
        gone = [member.member_id for member in leaving]
        records = [*group.log.member_tombstones(gone), *more, self.epoch_record(group, facts)]
        empties = len(gone) == len(group.members) and FOLLOWS_EMPTIED_GROUPS.of(self.release)
        if empties:
            records.append(group.log.assignment(group.epoch + 1, 0))
        if error := self.registry.log(group.group_id, records, now):
            return error
        for member_id in gone:
            for kind in (SESSION, REBALANCE, JOIN, SYNC):
                group.cancel_timer(kind, member_id)
            group.remove(member_id)
        for record in more:
            group.replay(record.key, record.value)
        group.epoch += 1
        if empties:
            group.assignment_epoch, group.assigned_at = group.epoch, 0
        group.facts = facts
        self.registry.report(group)
        return ErrorCode.NONE

    def epoch_record(self, group: G, facts: TopicFacts) -> CoordinatorRecord:
        """Returns the record of the group's next epoch. `facts` are the topics to which the group then subscribes."""
        return group.epoch_record(group.epoch + 1, metadata_hash(facts, self._cluster))

    # Loading

    def loaded(self, group: G, now: int) -> None:
        """Continue with a group that was read from the log. If the group's topics have changed since the group's epoch last
        rose, the epoch rises with the next heartbeat."""
        present = self.facts(group.topics())
        group.facts = present if metadata_hash(present, self._cluster) == group.recorded_hash else CHANGED
        self.restart(group, now)

    def restart(self, group: G, now: int) -> None:
        """Continue with the group's state in the log after a restart, and start the group's timers again."""
        group.forget_unrecorded()
        group.unload()
        for member in group.members.values():
            self.await_heartbeat(group, member.member_id, now)
            if member.state is MemberState.UNREVOKED:
                self._await_revocation(group, member, now)


def unknown_member(group: ModernGroup[Any, Any], member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def instance_gone(group: ModernGroup[Any, Any], instance_id: str | None) -> Refusal | None:
    """Returns a refusal if this group.instance.id belongs to a member that has left.

    If a member changes its group.instance.id and then leaves, the group may still have the old id.
    """
    member_id = group.static_members.get(instance_id) if instance_id is not None else None
    return None if member_id is None or member_id in group.members else unknown_member(group, member_id)


def known_member(group: ModernGroup[M, Any], member_id: str, instance_id: str | None) -> M | Refusal:
    """Returns the member with this member id and this group.instance.id, or a refusal if there is no such member."""
    if instance_id is None:
        return group.members.get(member_id) or unknown_member(group, member_id)
    member = group.static_member(instance_id)
    if member is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        who = f"Static member {member_id} with instance id {instance_id}"
        return Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{who} was fenced by member {member.member_id}.")
    return member


def blank_name(named: Mapping[str, str | None]) -> str | None:
    """Returns Kafka's message if any of these fields of a request is blank, else None."""
    return next((f"{name} can't be empty." for name, value in named.items() if value is not None and not trim(value)), None)
