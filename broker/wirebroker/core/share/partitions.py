"""The share partitions that brokers lead, and the share sessions of group members (Kafka's SharePartitionManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from kafkawire.errors import ErrorCode
from wirebroker.common.slices import Pause, pauses
from wirebroker.core.cluster import Cluster
from wirebroker.core.offset_lookup import EARLIEST, LATEST
from wirebroker.core.partition import Partition
from wirebroker.core.refusals import UNKNOWN_PARTITION, Refusal
from wirebroker.core.share.coordinator import UNKNOWN, ShareCoordinator
from wirebroker.core.share.in_flight import Key, StateBatch
from wirebroker.core.share.partition import Acknowledged, Broken, SharePartition, Undo
from wirebroker.core.share.sessions import Ended, MemberKey, ShareSession, ShareSessions
from wirebroker.core.share.settings import ShareSettings

Woken = Callable[[int], None]
PARTITIONS = 64
"""The number of partitions that are handled in one slice of long work."""
_AS_SEEN = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""For each error of the share coordinator, the error that a member gets. For any other error, the member gets
UNKNOWN_SERVER_ERROR."""
_FENCES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""After one of these errors, the leader closes the share partition and reads its state again."""


class Held(Struct, eq=False):
    """A share partition that the partition's leader has opened. The broker gives out records only after it has loaded the share
    partition's state (`active`)."""

    share: SharePartition
    partition: Partition
    node_id: int
    settings: ShareSettings
    active: bool = False
    looked_at: int = -1
    """The offset from which the last fetch tried to read (Kafka's fetchOffsetMetadata)."""

    @property
    def key(self) -> Key:
        """The group id, the topic id and the partition number."""
        return self.share.group_id, self.share.topic_id, self.share.index


class Settling(NamedTuple):
    """Acknowledgements that were checked, but that are not written down yet."""

    held: Held
    changed: Sequence[Undo]


class SharePartitions:
    """All share partitions and share sessions of the cluster's brokers."""

    def __init__(self, cluster: Cluster, coordinator: ShareCoordinator) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self.sessions = ShareSessions()
        self._held: dict[Key, Held] = {}
        self._waiting: dict[Key, dict[Woken, None]] = {}

    def settings(self, group_id: str) -> ShareSettings:
        return ShareSettings(group_id, self._cluster.configs)

    def restart(self) -> None:
        """Handle a restart of all brokers: acquired records that were not acknowledged become available again."""
        for held in list(self._held.values()):
            self.forget(held)
        self._waiting.clear()
        self.sessions.clear()

    def broker_down(self, node_id: int) -> None:
        """Forget the sessions of a broker that has died."""
        self.sessions.clear_at(node_id)
        for held in [held for held in self._held.values() if held.node_id == node_id]:
            self.forget(held)

    # Waiting

    def watch(self, key: Key, callback: Woken) -> None:
        """Register a callback. The callback is called when more records of the share partition may be available. Its argument
        is the current time."""
        self._waiting.setdefault(key, {})[callback] = None

    def unwatch(self, key: Key, callback: Woken) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.pop(callback, None)
            if not waiting:
                del self._waiting[key]

    def wake(self, key: Key, now: int) -> None:
        """Call the callbacks, because more records of the share partition may be available."""
        for callback in list(self._waiting.get(key, ())):
            callback(now)

    # Share partitions

    def find(self, key: Key, node_id: int) -> Held | None:
        """Returns the share partition if this broker has opened it and still leads the partition, else None."""
        held = self._held.get(key)
        if held is not None and (held.partition.deleted or held.partition.leader != held.node_id):
            self.forget(held)
            return None
        return held if held is not None and held.node_id == node_id else None

    def open(self, key: Key, partition: Partition, node_id: int) -> Held:
        """Create the share partition on its leader. The caller must then `load` its state."""
        settings = self.settings(key[0])
        share = SharePartition(
            partition.topic, key, partition.leader_epoch, settings, self._cluster.timers, self,
            lambda now: self.wake(key, now), self._cluster,
        )  # fmt: skip
        held = self._held[key] = Held(share, partition, node_id, settings)
        return held

    def load(self, held: Held, now: int) -> Refusal | None:
        """Read the state of a share partition. Returns the reason if that fails, else None."""
        state = self._coordinator.read(held.key, held.share.leader_epoch, now)
        if isinstance(state, Refusal):
            self.forget(held)
            return _as_seen(state)
        start = state.start_offset
        if start == UNKNOWN:
            start = self._reset(held, now)
        try:
            held.share.load(start, state.state_epoch, state.batches)
        except Broken as broken:
            self.forget(held)
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(broken))
        held.active = True
        held.share.bury_the_rest(now)
        return None

    def _reset(self, held: Held, now: int) -> int:
        since = held.settings.reset_time(now)
        found = held.partition.offset_for(since)
        if found.offset < 0:  # no record has a timestamp as late as `since`
            found = held.partition.offset_for(LATEST)
        return found.offset

    def starts_at_log_start(self, held: Held) -> None:
        """Move the share partition's start offset up to the log start offset."""
        held.share.log_starts_at(held.partition.offset_for(EARLIEST).offset)

    def follow_logs(self, now: int) -> None:
        """Handle a soft reset: move the start offset of every share partition to the start of the partition's log (after a soft
        reset, this is also the end of the log). Acquired records stay acquired."""
        for held in self:
            self.starts_at_log_start(held)
            self.wake(held.key, now)
        for key, state in list(self._coordinator.states.items()):
            topic = self._cluster.topics_by_id.get(key[1])
            partition = None if topic is None else topic.partition(key[2])
            if partition is not None and UNKNOWN != state.start_offset < partition.log_start_offset:
                self._coordinator.write(key, UNKNOWN, UNKNOWN, partition.log_start_offset, 0, (), now)

    def forget(self, held: Held) -> None:
        """Close a share partition. The next fetch reads its state again."""
        held.active = False
        held.share.close()
        if self._held.get(held.key) is held:
            del self._held[held.key]

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def write(self, partition: SharePartition, batches: Sequence[StateBatch], now: int) -> Refusal | None:
        """Write down changes of a share partition. Returns the reason if that fails, else None."""
        refused = self._coordinator.write(
            (partition.group_id, partition.topic_id, partition.index), partition.state_epoch, partition.leader_epoch,
            partition.start_offset, partition.completed, batches, now,
        )  # fmt: skip
        return None if refused is None else _as_seen(refused)

    def bury(self, partition: SharePartition, records: StateBatch, rejected: bool, now: int) -> None:
        """Write the dead letters of records and then archive the records. Does nothing if the share partition was closed."""
        from wirebroker.core.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, DeadLetters, Letters

        held = self._held.get((partition.group_id, partition.topic_id, partition.index))
        if held is None or held.share is not partition:
            return
        letters = Letters(
            held.settings, held.partition, records.first, records.last, records.delivery_count,
            REJECTED if rejected else DELIVERED_TOO_OFTEN,
            held=lambda: self._held.get(held.key) is held, done=lambda why, when: partition.buried(records, why, when),
        )  # fmt: skip
        DeadLetters(self._cluster).send(letters, now)

    # Acknowledgements

    def acknowledge(
        self, key: Key, node_id: int, member_id: str, batches: Sequence[Acknowledged], now: int
    ) -> Refusal | Settling:
        """Check a member's acknowledgements. They take effect when the caller passes the result to `finish`. Raises Broken."""
        held = self.find(key, node_id)
        if held is None:
            return UNKNOWN_PARTITION
        changed = held.share.acknowledge(member_id, batches, now)
        self.wake(key, now)
        return changed if isinstance(changed, Refusal) else Settling(held, changed)

    def finish(self, settling: Settling, now: int) -> Refusal | None:
        """Write down acknowledgements. Returns the reason if that fails, else None."""
        held, changed = settling
        refused = held.share.finish(changed, now)
        if refused is not None and refused.code in _FENCES:
            self.forget(held)
            self.wake(held.key, now)
        return refused

    # Sessions

    def end_session(self, key: MemberKey, now: int, pause: Pause) -> Iterator[None]:
        """End a member's session, and release its acquired records, in slices."""
        session = self.sessions.remove(key)
        if session is not None:
            yield from self._release(session, now, pause)

    def _release(self, session: ShareSession, now: int, pause: Pause) -> Iterator[None]:
        node_id, group_id, member_id = session.key
        settling = []
        for topic_id, index in list(session.partitions):
            yield from pause()
            held = self.find((group_id, topic_id, index), node_id)
            if held is not None:
                settling.append(Settling(held, held.share.release(member_id)))
                self.wake(held.key, now)
        for each in settling:
            yield from pause()
            self.finish(each, now)

    def disconnected(self, connection: int, now: int) -> None:
        """End the share session that was begun on a connection that has closed. The broker forgets a group's share partitions
        when the group's last session has ended."""
        ended = self.sessions.disconnected(connection)
        if ended is not None:
            self._cluster.timers.work(self._end(ended, now))

    def _end(self, ended: Ended, now: int) -> Iterator[None]:
        pause = pauses(PARTITIONS)
        if ended.session is not None:
            yield from self._release(ended.session, now, pause)
        for held in list(self._held.values()) if ended.last_of_group else ():
            yield from pause()
            group = held.node_id, held.share.group_id
            if group == ended[1:3] and not self.sessions.of_group(*group):
                self.forget(held)
                self.wake(held.key, now)


def _as_seen(refused: Refusal) -> Refusal:
    return Refusal(_AS_SEEN.get(refused.code, ErrorCode.UNKNOWN_SERVER_ERROR), refused.message)
