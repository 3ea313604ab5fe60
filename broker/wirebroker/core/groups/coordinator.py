"""The group coordinator: finds the group of a request, checks that this broker coordinates the group, and hands the request on.

All brokers of the process share the coordinator. A broker that does not coordinate the group responds with NOT_COORDINATOR.
`classic_requests`, `consumer_heartbeats`, `share_heartbeats` and `streams_heartbeats` handle the requests, and `offset_manager`
handles offsets. `registry` has the groups and writes their records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.common.slices import pauses
from wirebroker.core.cluster import GROUP_TOPIC, Cluster
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.classic_in_consumer import ClassicMembers
from wirebroker.core.groups.classic_requests import ClassicGroups
from wirebroker.core.groups.commit import offset_tombstone
from wirebroker.core.groups.consumer_heartbeats import ConsumerGroups
from wirebroker.core.groups.group import AnyGroup
from wirebroker.core.groups.loading import MODERN, GroupLog
from wirebroker.core.groups.modern_heartbeats import ModernGroups
from wirebroker.core.groups.offset_manager import OffsetManager
from wirebroker.core.groups.offsets import TopicPartition
from wirebroker.core.groups.registry import Registry
from wirebroker.core.groups.roster import Joined, Joiner, JoinRequest
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.groups.share_heartbeats import ShareGroups
from wirebroker.core.groups.streams_heartbeats import StreamsGroups
from wirebroker.core.purgatory import NEVER, Idle
from wirebroker.core.releases.changes import since
from wirebroker.core.share.coordinator import ShareCoordinator

KEEPS_EMPTIED_GROUPS = since("4.0", "a group without members still exists after its last offset was deleted", "KIP-848")
CHECKS_GROUP_IDS = since("2.0", "all requests of members refuse an empty group id with error 24")

GROUPS = 16
"""The number of groups that one slice handles."""


class GoneTopic(NamedTuple):
    """A deleted topic."""

    topic_id: bytes
    ends: dict[int, int]
    """For each partition of __consumer_offsets: the log end offset at the time when the topic was deleted."""


class GroupCoordinator:
    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self._registry = Registry(cluster)
        self.groups = self._registry.groups
        self.changes = self._registry.changes
        self.commits = OffsetManager(self._registry)
        self.offsets = self.commits.offsets
        self.zookeeper_offsets: dict[tuple[str, str, int], int] = {}
        """The offsets that were committed with version 0 of OffsetCommit, by group, topic and partition. Kafka keeps such
        offsets in ZooKeeper."""
        self._gone_topics: dict[str, GoneTopic] = {}
        """The deleted topics, by name, whose offsets the groups have not forgotten yet."""
        self._forgets = False
        """Tells whether `_forget_topics` is running."""
        self.share_state = ShareCoordinator(cluster)
        self.consumers = ConsumerGroups(self._registry)
        self.shares = ShareGroups(self._registry, self.share_state)
        self.streams = StreamsGroups(self._registry)
        self.classic = ClassicGroups(self._registry, ClassicMembers(self.consumers))
        modern: list[ModernGroups[Any, Any]] = [self.consumers, self.shares, self.streams]
        self._modern = {each.type: each for each in modern}
        """For each type of group except the classic type: the object that handles the type's requests."""
        self._set_timers(now)

    def _set_timers(self, now: int) -> None:
        configs = self._cluster.configs
        self._cluster.timers.every(lambda: configs.integer("offsets.retention.check.interval.ms"), now, self._expire_offsets)
        self.share_state.set_timers(now)

    # Loading

    def restart(self, now: int) -> None:
        """Continue after a restart of the broker: the committed offsets and the members of stable groups are read from the
        log."""
        for group in self.groups.values():
            self._restart(group, now)
        self._set_timers(now)

    def _restart(self, group: AnyGroup, now: int) -> None:
        if isinstance(group, Group):
            self._restart_classic(group, now)
        else:
            self._modern[group.kind].restart(group, now)

    def _restart_classic(self, group: Group, now: int) -> None:
        """If the group now has more members than it may have, its members must join again, and the last to join are refused
        (GroupMetadataManager.onLoaded)."""
        group.restart(now)
        if len(group.members) > self._cluster.configs.integer("group.max.size"):
            group.prepare_rebalance(now)

    def moved(self, index: int, now: int) -> None:
        """Handle a new leader, or the loss of the leader, of a partition of __consumer_offsets. The new leader loads the
        records."""
        self.changes.finish()
        led = self._cluster.partition(GROUP_TOPIC, index)
        for group in self.groups.values():
            if self.home(group.group_id) != index:
                continue
            group.unload()
            if led is not None and led.leader != NO_LEADER:
                self._restart(group, now)

    def log_deleted(self) -> None:
        """Delete all groups, because __consumer_offsets is deleted (GroupCoordinatorService.onResignation)."""
        self.changes.finish()
        for group in self.groups.values():
            group.unload()
        self.groups.clear()
        self.offsets.clear()

    def unload(self, index: int) -> None:
        """Forget the groups and the committed offsets of a partition of __consumer_offsets, because its log must be read
        again."""
        self.changes.finish()
        for group_id in [each for each in self.groups if self.home(each) == index]:
            self.groups.pop(group_id).unload()
        for group_id in [each for each in self.offsets.groups(pending=True) if self.home(each) == index]:
            self.offsets.delete_group(group_id)

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms` (negative if it was moved back). Move all stored times by `ms`, so that timers keep their
        remaining time."""
        self.changes.finish()
        for group in self.groups.values():
            group.change_times(lambda time: time + ms)
        self.streams.failures.clear()

    def load(self, index: int, batches: Iterable[memoryview], now: int) -> None:
        """Load the groups and the committed offsets from `batches`, which are the batches in one partition of
        __consumer_offsets. Raises ProtocolError.

        If the clock was moved forward before a restart, the records have later times than `now`. These times are set to `now`.
        """
        loaded = GroupLog(index, self.offsets, self.changes)
        for batch in batches:
            loaded.read(batch)
        for group_id, snapshot in loaded.classic.items():
            group = self._registry.create_classic(group_id, now)
            group.snapshot = snapshot
            self._restart_classic(group, now)
        for kind in MODERN:
            for made in loaded.modern.values():
                if isinstance(made, kind):
                    made.change_times(lambda time: min(time, now))
                    self.groups[made.group_id] = made
                    self._modern[kind.kind].loaded(made, now)
        for group_id in loaded.with_offsets - self.groups.keys():
            if self.offsets.all_of(group_id):
                self._registry.create_classic(group_id, now)

    # Finding the coordinator

    def home(self, group_id: str) -> int:
        """Returns the index of the partition of __consumer_offsets that has the group's records."""
        return self._registry.home(group_id)

    def coordinator_error(self, group_id: str, node_id: int) -> ErrorCode:
        """Returns NONE if this broker coordinates the group, else NOT_COORDINATOR."""
        return self._cluster.coordinator_error("group", group_id, node_id)

    def membership_error(self, group_id: str, node_id: int) -> ErrorCode:
        """Returns NONE if this broker coordinates the group and the group id is not empty, else the error."""
        if not group_id and CHECKS_GROUP_IDS.of(self._cluster.configs.release):
            return ErrorCode.INVALID_GROUP_ID
        return self.coordinator_error(group_id, node_id)

    # Classic membership

    def join(self, requested: JoinRequest, joiner: Joiner, now: int) -> Generator[None, Any, None]:
        """Handle a JoinGroup. `joiner` is called with the response, now or at the end of the join phase."""
        if not requested.group_id:
            joiner(Joined(ErrorCode.INVALID_GROUP_ID, requested.member_id))
        elif error := self.classic.session_error(requested):
            joiner(Joined(error, requested.member_id))
        elif error := self.coordinator_error(requested.group_id, requested.node_id):
            joiner(Joined(error))
        else:
            yield from self.classic.join(requested, joiner, now)

    def expire_member(self, group_id: str, member_id: str, now: int) -> bool:
        """Remove a member as if its session timeout were over. Returns False if the member stays or does not exist, or if the
        group has no coordinator, because only a coordinator removes members."""
        self.changes.finish()
        group = self.groups.get(group_id)
        if group is None or self._cluster.coordinator("group", group_id) is None:
            return False
        if isinstance(group, Group):
            member = group.members.get(member_id)
            return member is not None and group.session_ends(member, now)
        modern = group.members.get(member_id)
        return modern is not None and not self._modern[group.kind].fence(group, [modern], now)

    # Deleting

    def topic_deleted(self, topic: str, topic_id: bytes = b"") -> None:
        """Remember that a topic was deleted, until `forget_topics` makes the groups forget it. As in Kafka, one call of
        `forget_topics` handles all topics that are deleted together."""
        offsets = self._cluster.topics.get(GROUP_TOPIC)
        ends = {each.index: each.log_end_offset for each in offsets.partitions} if offsets is not None else {}
        self._gone_topics[topic] = GoneTopic(topic_id, ends)

    def forget_topics(self, now: int) -> None:
        """Forget the committed offsets of deleted topics, and the share groups' state of these topics, in slices."""
        if self._gone_topics and not self._forgets:
            self._cluster.timers.work(self._forgetting_topics(now))

    def _forgetting_topics(self, now: int) -> Iterator[None]:
        """Forget the deleted topics in all groups. Topics that are deleted while this runs are forgotten in a further pass."""
        self._forgets = True
        pause = pauses()
        try:
            while self._gone_topics:
                gone, self._gone_topics = self._gone_topics, {}
                gone_ids = frozenset(each.topic_id for each in gone.values())
                for group in list(self.groups.values()):
                    yield from pause()
                    if isinstance(group, ShareGroup):
                        yield from self.shares.states.topics_deleted(group, gone_ids, now)
                yield from self.share_state.topics_deleted(gone_ids, now)
                for group_id in list(self.groups):
                    yield from pause()
                    found = []
                    for where in self.offsets.all_of(group_id):
                        yield from pause()
                        if where[0] in gone:
                            found.append(where)
                    # Between two slices, the group may have committed an offset of a new topic with the same name.
                    found = [each for each in found if self._is_of(gone[each[0]], group_id, each)]
                    self.commits.delete(group_id, found, now)
                    if found:
                        self.offsets_deleted(group_id, now)
        finally:
            self._forgets = False

    def _is_of(self, gone: GoneTopic, group_id: str, where: TopicPartition) -> bool:
        """Tells whether the group's offset belongs to the deleted topic, and not to a new topic with the same name."""
        return self.offsets.recorded_at(group_id, where) < gone.ends.get(self.home(group_id), NEVER)

    def offsets_deleted(self, group_id: str, now: int) -> None:
        """If the release is before 4.0, delete an empty group whose last offset was deleted."""
        group = self.groups.get(group_id)
        if group is not None and not KEEPS_EMPTIED_GROUPS.of(self._cluster.configs.release) and self._is_over(group):
            self._forget(group, now)

    def _is_over(self, group: AnyGroup) -> bool:
        held = self.offsets.of(group.group_id) or self.offsets.waits(group.group_id)
        return group.expires and group.is_empty and not held

    def delete_group(self, group_id: str, now: int) -> Generator[None, Any, ErrorCode]:
        """Delete a group that has no members. If the group is a share group, the state of its share partitions is deleted
        first, in slices."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        if isinstance(group, ShareGroup):
            if refused := (yield from self.shares.states.delete_all(group, now)):
                return refused
            if self.groups.get(group_id) is not group:  # another request has deleted the group
                return ErrorCode.GROUP_ID_NOT_FOUND
            if not group.is_empty:
                return ErrorCode.NON_EMPTY_GROUP
        error = self._forget(group, now, [offset_tombstone(group_id, each) for each in self.offsets.all_of(group_id)])
        if not error:
            self.offsets.delete_group(group_id)
        return error

    def _expire_offsets(self, now: int) -> Generator[None, Any, Idle]:
        """Forget offsets older than offsets.retention.minutes, and delete an empty group that loses all its offsets."""
        pause, until, changed = pauses(GROUPS), NEVER, False
        for group_id, group in list(self.groups.items()):
            yield from pause()
            if self.groups.get(group_id) is not group or self.commits.log_error(group_id):
                continue
            expires = yield from self.commits.expire(group, now)
            if self.groups.get(group_id) is group and self._is_over(group):
                expires = now if self._forget(group, now) else None
            if expires is None:
                changed = True
            else:
                until = min(until, expires)
        return None if changed else until

    def _forget(self, group: AnyGroup, now: int, before: Sequence[CoordinatorRecord] = ()) -> ErrorCode:
        """Write the records in `before`, then write the group's tombstones, then delete the group. If the write fails, the
        group stays."""
        error = self._registry.log(group.group_id, [*before, *group.tombstones()], now)
        if not error:
            del self.groups[group.group_id]
            group.die(now)
        return error
