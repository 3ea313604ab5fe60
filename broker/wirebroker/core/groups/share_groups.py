"""The requests of share groups (KIP-932): ShareGroupHeartbeat, the removal of members, and what administrators do.

The rules are those of GroupMetadataManager in Kafka 4.3.1. A result is computed first and written down only at the end, so a
refused request changes nothing. Requests about many topics are handled in slices. A partition is assigned only after its
state has been initialized. That follows the first heartbeat, so a member gets its partitions with a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.common.slices import TOPICS, after, at_once, pauses
from wirebroker.core.changes import GroupChange
from wirebroker.core.cluster import SHARE_TOPIC, Cluster
from wirebroker.core.configs import ConfigError
from wirebroker.core.coordinator_errors import RETRY_MS
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.java_order import buckets_for, hash_order, topic_ids
from wirebroker.core.groups.share_group import NOTHING, Preparation, Prepared, ShareGroup, ShareMember
from wirebroker.core.groups.share_log import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    preparation_record,
    target_records,
)
from wirebroker.core.groups.simple_assignor import Partitions, ShareSubscriber, simple
from wirebroker.core.names import java_hash
from wirebroker.core.refusals import Refusal
from wirebroker.core.share.coordinator import UNKNOWN, WRITES, ShareCoordinator
from wirebroker.core.share.settings import ShareSettings

LEAVES = -1
ASSIGNOR = "simple"
SESSION = "session"
Log = Callable[[str, Iterable[CoordinatorRecord | None], int], Generator[None, Any, ErrorCode]]
Deleted = list[tuple[str, bytes, Refusal | None]]


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat. Fields that are None have not changed."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: Sequence[str] | None
    client_id: str
    client_host: str


class ShareHeartbeatResult(NamedTuple):
    """The answer to a heartbeat. `assigned` is None if the member already knows it. The interval is in ms."""

    member_id: str
    epoch: int
    interval: int = 0
    assigned: Partitions | None = None


class ShareGroups:
    """The share groups of the cluster. `find` returns the group with an id, `enter` registers a new one, `log` writes records
    down in slices (see `GroupCoordinator`), all or none, and returns the client's error.
    """

    def __init__(
        self, cluster: Cluster, changes: Changes, coordinator: ShareCoordinator, find: Callable[[str], object | None],
        enter: Callable[[ShareGroup], None], log: Log,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._changes = changes
        self._coordinator = coordinator
        self._lookup = find
        self._enter = enter
        self._log = log

    def settings(self, group_id: str) -> ShareSettings:
        """The settings of a group."""
        return ShareSettings(group_id, self._cluster.configs)

    # Heartbeats

    @staticmethod
    def request_error(requested: ShareHeartbeat) -> Refusal | None:
        """The refusal of a request that is invalid for every group, or None."""
        invalid = ErrorCode.INVALID_REQUEST
        named = {"MemberId": requested.member_id, "GroupId": requested.group_id, "RackId": requested.rack_id}
        for name, value in named.items():
            if value is not None and not value.strip():
                return Refusal(invalid, f"{name} can't be empty.")
        if requested.epoch == 0 and not requested.topics:
            return Refusal(invalid, "SubscribedTopicNames must be set in first request.")
        if requested.epoch < LEAVES:
            return Refusal(invalid, "MemberEpoch is invalid.")
        return None

    def find(self, group_id: str, *, create: bool = False) -> ShareGroup | Refusal:
        """The share group with this id; with `create` perhaps a new one, which is not registered yet."""
        group = self._lookup(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is None and create:
            return ShareGroup(group_id, self._changes)
        absent = f"Group {group_id} is not a share group." if group is not None else f"Share group {group_id} not found."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, absent)

    def heartbeat(self, requested: ShareHeartbeat, now: int) -> Generator[None, Any, ShareHeartbeatResult | Refusal]:
        """A member joins, stays or leaves."""
        if requested.epoch == LEAVES:
            return self._leave(requested, now)
        response = yield from self._changes.alone(requested.group_id, self._heartbeat(requested, now))
        group = self._lookup(requested.group_id)
        if isinstance(response, ShareHeartbeatResult) and isinstance(group, ShareGroup):
            yield from self._prepare(group, now)
        return response

    def _heartbeat(self, requested: ShareHeartbeat, now: int) -> Generator[None, Any, ShareHeartbeatResult | Refusal]:
        group = self.find(requested.group_id, create=requested.epoch == 0)
        if isinstance(group, Refusal):
            return group
        old = self._member(group, requested)
        if isinstance(old, Refusal):
            return old
        new = _updated(old, requested)
        yield from after(new.topics)
        records = [member_record(group.group_id, new)] if new != old or old.member_id not in group.members else []
        epoch, facts = yield from self._next_epoch(group, old, new)
        rose = epoch != group.epoch
        if rose:
            records.append(epoch_record(group.group_id, epoch))
        targets = yield from self._new_targets(group, new, epoch, now)
        if targets is not None:
            for record in target_records(group, targets, epoch, now):
                records.append(record)
                yield from after(facts)
        target_epoch = group.assignment_epoch if targets is None else epoch
        given = group.targets if targets is None else targets
        reconciled = self._reconciled(new, target_epoch, given.get(new.member_id, NOTHING), rose)
        if reconciled != new:
            records.append(current_record(group.group_id, reconciled))
        yield from after(reconciled.assigned)
        if error := (yield from self._log(group.group_id, records, now)):
            return Refusal(error)
        self._enter(group)
        group.members[new.member_id] = reconciled
        group.epoch, group.facts = epoch, facts
        if targets is not None:
            group.targets, group.assignment_epoch, group.assigned_at = targets, epoch, now
        if rose:
            self._report(group)
        self._await_heartbeat(group, new.member_id, now)
        shown = requested.epoch == 0 or requested.topics is not None or reconciled.assigned != old.assigned
        interval = self.settings(group.group_id).heartbeat_ms
        return ShareHeartbeatResult(new.member_id, reconciled.epoch, interval, reconciled.assigned if shown else None)

    def _member(self, group: ShareGroup, requested: ShareHeartbeat) -> ShareMember | Refusal:
        largest = self._cluster.configs.integer("group.share.max.size")
        member = group.members.get(requested.member_id)
        if len(group.members) >= largest and member is None:
            full = f"The share group has reached its maximum capacity of {largest} members."
            return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, full)
        if member is None:
            return ShareMember(requested.member_id) if requested.epoch == 0 else _unknown(group, requested.member_id)
        if requested.epoch in (0, member.epoch) or member.previous_epoch == requested.epoch < member.epoch:
            return member
        size = "greater" if requested.epoch > member.epoch else "smaller"
        return Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {size} member epoch ({requested.epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin.",
        )

    def _next_epoch(
        self, group: ShareGroup, old: ShareMember, new: ShareMember
    ) -> Generator[None, Any, tuple[int, Mapping[str, tuple[bytes, int]]]]:
        """The group's epoch and facts after `old` becomes `new`."""
        facts = self._facts(group.subscriptions(new))
        bumps = old.topics != new.topics or facts != group.facts
        yield from after(facts)
        if group.assignment_epoch >= group.epoch:
            bumps = bumps or self._can_assign_more(group)
        yield from after(facts)
        return group.epoch + bumps, facts

    def _facts(self, subscribed: Iterable[str]) -> dict[str, tuple[bytes, int]]:
        topics = self._cluster.topics
        return {name: (topics[name].topic_id, len(topics[name].partitions)) for name in subscribed if name in topics}

    @staticmethod
    def _can_assign_more(group: ShareGroup) -> bool:
        """Whether partitions of subscribed topics have been initialized since the last assignment."""
        if group.preparation is None or not group.members:
            return False
        subscribed = group.subscriptions()
        assigned: dict[bytes, set[int]] = {}
        for given in group.targets.values():
            for topic_id, indexes in given.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        return any(
            each.name in subscribed and assigned.get(topic_id, set()) != set(each.partitions)
            for topic_id, each in group.preparation.initialized.items()
        )

    def _new_targets(
        self, group: ShareGroup, new: ShareMember, epoch: int, now: int
    ) -> Generator[None, Any, dict[str, Partitions] | None]:
        """The targets of all members, if they have to be and can be computed again."""
        interval = self.settings(group.group_id).assignment_ms
        too_soon = group.assigned_at and interval and now < group.assigned_at + interval
        if group.assignment_epoch >= epoch or too_soon:
            return None
        members = {**group.members, new.member_id: new}
        in_order = hash_order(members, java_hash, buckets_for(len(members)))
        topics = self._cluster.topics
        subscribers = {}
        ids: dict[frozenset[str], list[bytes]] = {}
        for member_id in in_order:
            wanted = members[member_id].topics
            if wanted not in ids:
                ids[wanted] = yield from topic_ids(wanted, topics)
                yield from after(wanted)
            subscribers[member_id] = ShareSubscriber(ids[wanted], group.targets.get(member_id, NOTHING))
        prepared = group.preparation.initialized if group.preparation is not None else {}
        assignable = {topic_id: each.partitions for topic_id, each in prepared.items()}
        same = all(count == len(members) for count in group.subscriptions(new).values())
        yield from after(assignable)
        made = yield from simple(subscribers, assignable, same=same)
        return {member_id: made.get(member_id, NOTHING) for member_id in in_order}

    def _reconciled(self, member: ShareMember, epoch: int, target: Partitions, changed: bool) -> ShareMember:
        if member.epoch == epoch and not changed:
            return member
        topics = self._cluster.topics_by_id
        assigned = {
            topic_id: indexes
            for topic_id, indexes in target.items()
            if topic_id in topics and topics[topic_id].name in member.topics
        }
        if member.epoch == epoch:
            return replace(member, assigned=assigned)
        return replace(member, epoch=epoch, previous_epoch=member.epoch, assigned=assigned)

    # Leaving

    def _leave(self, requested: ShareHeartbeat, now: int) -> ShareHeartbeatResult | Refusal:
        group = self.find(requested.group_id)
        if isinstance(group, Refusal):
            return group
        if requested.member_id not in group.members:
            return _unknown(group, requested.member_id)
        error = self._fence(group, requested.member_id, now)
        return Refusal(error) if error else ShareHeartbeatResult(requested.member_id, requested.epoch)

    def _await_heartbeat(self, group: ShareGroup, member_id: str, now: int) -> None:
        when = now + self.settings(group.group_id).session_ms

        def expire(now: int) -> None:
            if member_id in group.members and self._fence(group, member_id, now):
                group.set_timer(SESSION, member_id, now + RETRY_MS, expire)

        group.set_timer(SESSION, member_id, when, expire)

    def _fence(self, group: ShareGroup, member_id: str, now: int) -> ErrorCode:
        """Remove a member. The group's epoch rises, and the next heartbeat computes a new target."""
        records = [*member_tombstones(group.group_id, [member_id]), epoch_record(group.group_id, group.epoch + 1)]
        if error := at_once(self._log(group.group_id, records, now)):
            return error
        group.cancel_timer(SESSION, member_id)
        del group.members[member_id]
        group.targets.pop(member_id, None)
        group.epoch += 1
        group.facts = self._facts(group.subscriptions())
        self._report(group)
        return ErrorCode.NONE

    def _report(self, group: ShareGroup) -> None:
        self._cluster.report(GroupChange(group.group_id, group.state, group.epoch, len(group.members)))

    def restart(self, group: ShareGroup, now: int) -> None:
        """Continue from the records, which hold all of the group except its timers and facts."""
        group.cancel_timers()
        group.facts = self._facts(group.subscriptions())
        for member_id in group.members:
            self._await_heartbeat(group, member_id, now)

    # The state of partitions

    def _prepare(self, group: ShareGroup, now: int) -> Generator[None, Any, None]:
        """Initialize the state of subscribed partitions that have none. Kafka does so after it has answered."""
        yield from after(group.facts)
        held = group.preparation or Preparation()
        retry = self._cluster.configs.integer("group.share.initialize.retry.interval.ms")
        recent = {topic_id: each for topic_id, each in held.initializing.items() if now - each.time < retry}
        known = _joined(held.initialized, recent)
        missing: dict[bytes, Prepared] = {}
        pause = pauses(TOPICS)
        for name in group.subscriptions():
            topic = self._cluster.topics.get(name)
            if topic is None:
                continue
            done = known[topic.topic_id].partitions if topic.topic_id in known else frozenset()
            if len(done) < len(topic.partitions):
                missing[topic.topic_id] = Prepared(name, frozenset(range(len(topic.partitions))) - done, now)
            if pause():
                yield
        if missing:
            wanted = {(topic_id, index): UNKNOWN for topic_id, each in missing.items() for index in each.partitions}
            yield from after(wanted)
            self._cluster.timers.work(self._initialize(group, missing, wanted, now))

    def _initialize(
        self, group: ShareGroup, topics: Mapping[bytes, Prepared], starts: Mapping[tuple[bytes, int], int], now: int
    ) -> Generator[None, Any, Mapping[tuple[bytes, int], Refusal] | Refusal]:
        """Initialize partitions (topic id, index), each with a start offset, in slices. The refused ones, or the refusal of
        all.
        """

        def begin(held: Preparation) -> Preparation:
            initializing = _joined(held.initializing, topics)
            deleting = {topic_id: name for topic_id, name in held.deleting.items() if topic_id not in initializing}
            return Preparation(initializing, held.initialized, deleting)

        if error := (yield from self._rewrite(group, begin, now)):
            return Refusal(error)
        self.make_state_topic(now)
        pause = pauses(WRITES)
        refused: dict[tuple[bytes, int], Refusal] = {}
        for (topic_id, index), start in starts.items():
            if pause():
                yield None
            found = self._coordinator.initialize((group.group_id, topic_id, index), group.epoch, start, now)
            if found is not None:
                refused[topic_id, index] = found
        yield from self._rewrite(group, lambda held: _initialized(held, topics, bool(refused)), now)
        return refused

    def make_state_topic(self, now: int) -> None:
        """Create __share_group_state, as its first use does."""
        if SHARE_TOPIC not in self._cluster.topics:
            with suppress(OSError, ConfigError):  # the brokers' settings may be invalid for this topic
                self._cluster.create_internal_topic(SHARE_TOPIC, now)
            self._cluster.decisions.write_down(now)

    def _rewrite(
        self, group: ShareGroup, change: Callable[[Preparation], Preparation], now: int
    ) -> Generator[None, Any, ErrorCode]:
        """Change which partitions have a state, once nobody else changes the group, and write that down. Does nothing if the
        group was deleted meanwhile.
        """
        yield from self._changes.settled([group.group_id])
        if group.preparation is not None and self._lookup(group.group_id) is not group:
            return ErrorCode.NONE
        return (yield from self._changes.alone(group.group_id, self._write(group, change, now)))

    def _write(
        self, group: ShareGroup, change: Callable[[Preparation], Preparation], now: int
    ) -> Generator[None, Any, ErrorCode]:
        preparation = change(group.preparation or Preparation())
        yield from after(preparation.initialized)
        error = yield from self._log(group.group_id, preparation_record(group.group_id, preparation), now)
        if not error:
            group.preparation = preparation
            self._enter(group)
        return error

    def topics_deleted(self, group: ShareGroup, gone: Collection[bytes], now: int) -> Generator[None, Any, None]:
        """Forget the state of the partitions of deleted topics."""

        def without(held: Preparation) -> Preparation:
            return Preparation(*({each: topics[each] for each in topics if each not in gone} for topics in held.by_state))

        held = group.preparation
        if held is not None and any(not topics.keys().isdisjoint(gone) for topics in held.by_state):
            yield from self._rewrite(group, without, now)

    # Administration

    def alter_offsets(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int]], now: int
    ) -> Generator[None, Any, Mapping[tuple[str, int], Refusal] | Refusal]:
        """Let a group without members begin at other offsets, by topic and partition, in slices. The refused ones, or the
        refusal.
        """
        group = self.find(group_id, create=True)
        if isinstance(group, Refusal):
            return group
        if group.members:
            return Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        refused: dict[tuple[str, int], Refusal] = {}
        topics: dict[bytes, Prepared] = {}
        starts: dict[tuple[bytes, int], int] = {}
        for name, offsets in wanted.items():
            topic = self._cluster.topics[name]
            for index, start in offsets.items():
                if index < len(topic.partitions):
                    starts[topic.topic_id, index] = start
                else:
                    refused[name, index] = Refusal(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
                    )  # fmt: skip
            indexes = frozenset(index for index in offsets if index < len(topic.partitions))
            topics[topic.topic_id] = Prepared(name, indexes, now)
        if not topics:
            return refused
        made = yield from self._initialize(group, topics, starts, now)
        if isinstance(made, Refusal):
            return made
        names = {topic_id: each.name for topic_id, each in topics.items()}
        return refused | {(names[topic_id], index): why for (topic_id, index), why in made.items()}

    def delete_offsets(self, group_id: str, names: Sequence[str], now: int) -> Generator[None, Any, Deleted | Refusal]:
        """Forget the state of topics, for a group without members, in slices: name, topic id and refusal of each."""
        group = self.find(group_id)
        if isinstance(group, Refusal):
            absent = f"Group {group_id} not found."
            return group if self._lookup(group_id) is not None else group._replace(message=absent)
        if group.members:
            return Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        held = group.preparation
        if held is None:
            return []
        gone: dict[bytes, tuple[str, frozenset[int]]] = {}
        refused: Deleted = []
        for name in names:
            topic = self._cluster.topics.get(name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None:
                refused.append((name, bytes(16), Refusal(unknown, "This server does not host this topic-partition.")))
            elif topic.topic_id in gone:
                continue
            elif topic.topic_id in held.initialized:
                gone[topic.topic_id] = name, held.initialized[topic.topic_id].partitions
            elif topic.topic_id in held.deleting:
                gone[topic.topic_id] = name, frozenset(range(len(topic.partitions)))
            else:
                refused.append((name, bytes(16), Refusal(unknown, "There is no offset information to delete.")))
        return (yield from self._delete_state(group, held, gone, now)) + refused

    def _delete_state(
        self, group: ShareGroup, held: Preparation, gone: Mapping[bytes, tuple[str, frozenset[int]]], now: int
    ) -> Generator[None, Any, Deleted]:
        pause = pauses(WRITES)
        deleting = {**held.deleting, **{topic_id: name for topic_id, (name, _) in gone.items()}}

        def begin(held: Preparation) -> Preparation:
            initialized = {topic_id: each for topic_id, each in held.initialized.items() if topic_id not in gone}
            return Preparation(held.initializing, initialized, deleting)

        yield from self._rewrite(group, begin, now)
        done: Deleted = []
        for topic_id, (name, indexes) in gone.items():
            wrong = []
            for index in sorted(indexes):
                if pause():
                    yield None
                wrong.append(self._coordinator.delete((group.group_id, topic_id, index), now))
            done.append((name, topic_id, next((each for each in wrong if each is not None), None)))
        left = {
            topic_id: name
            for topic_id, name in deleting.items()
            if not any(topic_id == other and why is None for _, other, why in done)
        }
        if gone:
            yield from self._rewrite(group, lambda held: Preparation(held.initializing, held.initialized, left), now)
        return done

    def delete_state(self, group: ShareGroup, now: int) -> Generator[None, Any, ErrorCode]:
        """Forget all state of a group that is to be deleted, in slices."""
        held, pause = group.preparation, pauses(WRITES)
        if held is None:
            return ErrorCode.NONE
        gone = _joined(held.initialized, held.initializing)
        for topic_id, each in gone.items():
            for index in sorted(each.partitions):
                if pause():
                    yield None
                refused = self._coordinator.delete((group.group_id, topic_id, index), now)
                if refused is not None:
                    return refused.code
        return ErrorCode.NONE


def _updated(member: ShareMember, requested: ShareHeartbeat) -> ShareMember:
    return replace(
        member,
        rack_id=member.rack_id if requested.rack_id is None else requested.rack_id,
        topics=member.topics if requested.topics is None else frozenset(requested.topics),
        client_id=requested.client_id,
        client_host=requested.client_host,
    )


def _unknown(group: ShareGroup, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def _joined(one: Mapping[bytes, Prepared], other: Mapping[bytes, Prepared]) -> dict[bytes, Prepared]:
    made = dict(one)
    for topic_id, each in other.items():
        made[topic_id] = each._replace(partitions=made[topic_id].partitions | each.partitions) if topic_id in made else each
    return made


def _initialized(held: Preparation, topics: Mapping[bytes, Prepared], failed: bool) -> Preparation:
    """The preparation after these partitions were initialized, or were not."""
    left = {}
    for topic_id, each in held.initializing.items():
        rest = each.partitions - topics[topic_id].partitions if topic_id in topics else each.partitions
        if rest:
            left[topic_id] = each._replace(partitions=rest)
    return Preparation(left, held.initialized if failed else _joined(held.initialized, topics), held.deleting)
