"""The share coordinator: the state of share partitions in __share_group_state (Kafka's ShareCoordinatorShard).

The key `group:topicId:partition` determines the coordinator of a share partition. All brokers of the process share one
coordinator object. A snapshot is a record with the whole state of a share partition. An update is a record with the changes
since the previous record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from kafkawire.batches import Record, build_batch, iter_records, read_header
from kafkawire.coordinator_log import encode_key, encode_value, read_record
from kafkawire.coordinator_records import SHARE_RECORDS, share_snapshot, share_update
from kafkawire.coordinator_records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kafkawire.coordinator_records.share_update import ShareUpdateKey, ShareUpdateValue
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ErrorCode
from kafkawire.primitives import format_uuid
from wirebroker.common.changes import RetentionRow
from wirebroker.common.slices import pauses, sliced
from wirebroker.core.cluster import SHARE_TOPIC, Cluster
from wirebroker.core.coordinator_errors import translate_error
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.purgatory import NEVER, Idle
from wirebroker.core.refusals import UNKNOWN_PARTITION, Refusal
from wirebroker.core.releases.changes import ByRelease, since
from wirebroker.core.share.combining import combined
from wirebroker.core.share.in_flight import Key, StateBatch
from wirebroker.core.share.needed import NeededRecords

FENCED_STATE = ByRelease("The share coordinator rejected the request because the share-group state epoch did not match.").then(
    "4.4",
    "The coordinator rejected the request because the state epoch did not match.",
    "the message of error 124 no longer mentions share groups",
)
COUNTS_FROM_START = since("4.3", "the lag of a share partition is known before the first acknowledgement", "KIP-1226")
READS_UNKNOWN_EPOCHS = since("4.3", "ReadShareGroupState with the leader epoch −1 succeeds, until 4.4")
KEEPS_SHARE_PROGRESS = since("4.4", "a write of a share partition's state never lowers the partition's start offset")

RecordKey = Callable[..., ShareSnapshotKey | ShareUpdateKey]
S = TypeVar("S", share_snapshot.StateBatch, share_update.StateBatch)
LogPlace = tuple[int, int]
"""A partition of __share_group_state, and an offset in it."""
PRUNE = "share.coordinator.state.topic.prune.interval.ms"
COLD = "share.coordinator.cold.partition.snapshot.interval.ms"
WRITES = 64
"""The number of records that are written in one slice."""
UNKNOWN = -1
"""The value for an unknown start offset or epoch. If the start offset is unknown, the group's share.auto.offset.reset
determines it."""


class ShareState(NamedTuple):
    """The state of a share partition in __share_group_state. Times are in ms since the epoch."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    completed: int
    """The number of completed records from the start offset on, or −1 if this number is unknown."""
    batches: tuple[StateBatch, ...]
    created: int
    written: int


NOTHING = ShareState(0, 0, 0, UNKNOWN, UNKNOWN, (), 0, 0)
NEGATIVE = Refusal(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
FENCED_LEADER = Refusal(ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker.")


@lru_cache(maxsize=1 << 10)
def coordinator_key(key: Key) -> str:
    """Returns the key of a share partition in a FindCoordinator request."""
    group_id, topic_id, index = key
    return f"{group_id}:{format_uuid(topic_id)}:{index}"


class ShareCoordinator:
    """The state of all share partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.states: dict[Key, ShareState] = {}
        self._updates: dict[Key, int] = {}
        """For each share partition, the number of updates since its last snapshot."""
        self._leader_epochs: dict[Key, int] = {}
        self._state_epochs: dict[Key, int] = {}
        """The highest state epoch of each share partition so far."""
        self._needed: defaultdict[int, NeededRecords] = defaultdict(NeededRecords)
        """For each partition of __share_group_state, the records that are still needed."""

    def set_timers(self, now: int) -> None:
        """Set the timers of the periodic work when the broker starts."""
        configs, timers = self._cluster.configs, self._cluster.timers
        timers.every(lambda: configs.integer(PRUNE), now, self._prune)
        timers.every(lambda: configs.integer(COLD), now, self._write_again)

    def coordinator_error(self, key: Key, node_id: int) -> ErrorCode:
        """Returns NONE if this broker coordinates the share partition, else NOT_COORDINATOR."""
        return self._cluster.coordinator_error("share", coordinator_key(key), node_id)

    def log_deleted(self) -> None:
        """Forget all state, because __share_group_state is deleted."""
        self.states.clear()
        self._updates.clear()
        self._leader_epochs.clear()
        self._state_epochs.clear()
        self._needed.clear()

    def moved(self, index: int, now: int) -> None:
        """Does nothing, because this coordinator holds no state that is not in its log."""

    def unload(self, index: int) -> None:
        """Forget the states of a partition of __share_group_state, because its log must be read again."""
        of_log = self._cluster.coordinator_partition
        for held in (self.states, self._updates, self._leader_epochs, self._state_epochs):
            for key in [each for each in held if of_log("share", coordinator_key(each)) == index]:
                del held[key]
        self._needed.pop(index, None)

    @staticmethod
    def _place_error(key: Key) -> Refusal | None:
        return NEGATIVE if key[2] < 0 else None

    def _unknown(self, key: Key) -> Refusal | None:
        _, topic_id, index = key
        topic = self._cluster.topics_by_id.get(topic_id)
        return UNKNOWN_PARTITION if topic is None or index >= len(topic.partitions) else None

    # The operations

    def initialize(self, key: Key, state_epoch: int, start_offset: int, now: int) -> Refusal | None:
        """Create the state of a share partition, or replace the state by a new state with a higher state epoch. Returns the
        refusal, or None."""
        held = self.states.get(key)
        if refused := self._place_error(key):
            return refused
        if held is not None and UNKNOWN != state_epoch < self._state_epochs[key]:
            return Refusal(ErrorCode.FENCED_STATE_EPOCH, FENCED_STATE.of(self._cluster.configs.release))
        if refused := self._unknown(key):
            return refused
        snapshot_epoch = 0 if held is None else held.snapshot_epoch + 1
        counts = COUNTS_FROM_START.of(self._cluster.configs.release)
        completed = 0 if counts and start_offset != UNKNOWN else UNKNOWN
        return self._snapshot(key, ShareState(snapshot_epoch, state_epoch, 0, start_offset, completed, (), now, now), now)

    def read(self, key: Key, leader_epoch: int, now: int) -> ShareState | Refusal:
        """Returns the state of a share partition to the partition's leader. Remembers the leader's epoch (`leader_epoch`)."""
        held = self.states.get(key)
        if refused := self._place_error(key):
            return refused
        if held is None:
            return Refusal(ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
        known_epoch = leader_epoch != UNKNOWN or not READS_UNKNOWN_EPOCHS.of(self._cluster.configs.release)
        if known_epoch and leader_epoch < self._leader_epochs[key]:
            return FENCED_LEADER
        if refused := self._unknown(key):
            return refused
        refused = None
        if leader_epoch not in (UNKNOWN, self._leader_epochs[key]):
            refused = self._update(key, held, leader_epoch, held.start_offset, held.completed, (), now)
        return refused or held

    def write(
        self, key: Key, state_epoch: int, leader_epoch: int, start_offset: int, completed: int,
        batches: Sequence[StateBatch], now: int,
    ) -> Refusal | None:  # fmt: skip
        """Write down changes of a share partition. Returns the refusal, or None."""
        held = self.states.get(key)
        if refused := self._place_error(key):
            return refused
        if held is None:
            return Refusal(ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed.")
        if UNKNOWN != leader_epoch < self._leader_epochs[key]:
            return FENCED_LEADER
        if UNKNOWN != state_epoch < self._state_epochs[key]:
            return Refusal(ErrorCode.FENCED_STATE_EPOCH, FENCED_STATE.of(self._cluster.configs.release))
        if refused := self._unknown(key):
            return refused
        return self._update(key, held, held.leader_epoch, start_offset, completed, batches, now)

    def summary(self, key: Key) -> ShareState | Refusal:
        """Returns the state of a share partition to a reader that is not the partition's leader. Such a reader has no leader
        epoch."""
        return self._place_error(key) or self._unknown(key) or self.states.get(key, NOTHING)

    def delete(self, key: Key, now: int) -> Refusal | None:
        """Delete the state of a share partition. Returns the refusal, or None."""
        if refused := self._place_error(key) or self._unknown(key):
            return refused
        if key not in self.states:
            return None
        return self._forget(key, now)

    def _forget(self, key: Key, now: int) -> Refusal | None:
        written = self._log(key, ShareSnapshotKey, None, now)
        if isinstance(written, Refusal):
            return written
        self._drop(key, written)
        return None

    def topics_deleted(self, topic_ids: Collection[bytes], now: int) -> Iterator[None]:
        """Forget the share partitions of deleted topics, in slices."""
        gone = [key for key in self.states if key[1] in topic_ids]
        yield from sliced(lambda keys: self._forget_all(keys, now), gone, WRITES)

    def _forget_all(self, keys: Iterable[Key], now: int) -> None:
        for key in keys:
            self._forget(key, now)

    # Records

    def _snapshot(self, key: Key, state: ShareState, now: int) -> Refusal | None:
        value = ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch, state_epoch=state.state_epoch, leader_epoch=state.leader_epoch,
            start_offset=state.start_offset, delivery_complete_count=state.completed, create_timestamp=state.created,
            write_timestamp=state.written,
            state_batches=[_stored(share_snapshot.StateBatch, each) for each in state.batches],
        )  # fmt: skip
        written = self._log(key, ShareSnapshotKey, value, now)
        if isinstance(written, Refusal):
            return written
        self._take_snapshot(key, state, written)
        return None

    def _update(
        self, key: Key, held: ShareState, leader_epoch: int, start_offset: int, completed: int, batches: Sequence[StateBatch],
        now: int,
    ) -> Refusal | None:  # fmt: skip
        """Write an update record or, after many update records, a snapshot."""
        if KEEPS_SHARE_PROGRESS.of(self._cluster.configs.release):
            start_offset, completed = _progress(held, start_offset, completed)
        if self._updates.get(key, 0) >= self._updates_at_most:
            merged = _merged(held, leader_epoch, start_offset, completed, batches)
            return self._snapshot(key, merged._replace(snapshot_epoch=held.snapshot_epoch + 1, created=now, written=now), now)
        batches = combined((), batches, start_offset)
        value = ShareUpdateValue(
            snapshot_epoch=held.snapshot_epoch, leader_epoch=leader_epoch, start_offset=start_offset,
            delivery_complete_count=completed,
            state_batches=[_stored(share_update.StateBatch, each) for each in batches],
        )  # fmt: skip
        written = self._log(key, ShareUpdateKey, value, now)
        if isinstance(written, Refusal):
            return written
        self._take_update(key, _merged(held, leader_epoch, start_offset, completed, batches))
        return None

    @property
    def _updates_at_most(self) -> int:
        return self._cluster.configs.integer("share.coordinator.snapshot.update.records.per.snapshot")

    def _log(self, key: Key, kind: RecordKey, value: Message | None, now: int) -> LogPlace | Refusal:
        """Write a record of this kind; without a value, the record deletes the state."""
        log = self._cluster.coordinator_log("share", coordinator_key(key))
        if log is None:
            return Refusal(ErrorCode.NOT_COORDINATOR)
        try:
            record = Record(0, 0, _record_key(kind, key), None if value is None else encode_value(value))
            batch = build_batch([record], base_timestamp=now)
        except EncodeError:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        place = log.index, log.log_end_offset
        error = translate_error(log.append_own(batch, now))
        return Refusal(error) if error else place

    def load(self, index: int, batches: Iterable[memoryview], now: int) -> None:
        """Load a partition of __share_group_state. Raises ProtocolError."""
        for batch in batches:
            base = read_header(batch).base_offset
            for record in iter_records(batch):
                read = read_record(SHARE_RECORDS, record.key or b"", record.value)
                if read is not None:
                    self._replay(read.key, read.value, (index, base + record.offset_delta))

    def _replay(self, key: Message, value: Message | None, at: LogPlace) -> None:
        if not isinstance(key, ShareSnapshotKey | ShareUpdateKey):
            return
        place = (key.group_id, key.topic_id, key.partition)
        if isinstance(value, ShareSnapshotValue):
            self._take_snapshot(
                place, ShareState(
                    value.snapshot_epoch, value.state_epoch, value.leader_epoch, value.start_offset,
                    value.delivery_complete_count, tuple(map(_batch, value.state_batches)), value.create_timestamp,
                    value.write_timestamp,
                ), at,
            )  # fmt: skip
        elif isinstance(value, ShareUpdateValue):
            new = (
                value.leader_epoch, value.start_offset, value.delivery_complete_count, tuple(map(_batch, value.state_batches))
            )  # fmt: skip
            held = self.states.get(place)
            state = ShareState(value.snapshot_epoch, 0, *new, 0, 0) if held is None else _merged(held, *new)
            self._take_update(place, state)
        else:
            self._drop(place, at)

    def _take_snapshot(self, key: Key, state: ShareState, at: LogPlace) -> None:
        if self._updates.get(key, 0) >= self._updates_at_most:  # below the limit, a snapshot does not reset the count
            self._updates[key] = 0
        self._take(key, state)
        index, offset = at
        self._needed[index].written(key, offset)

    def _take_update(self, key: Key, state: ShareState) -> None:
        self._updates[key] = self._updates.get(key, 0) + 1
        self._take(key, state)

    def _take(self, key: Key, state: ShareState) -> None:
        self.states[key] = state
        self._leader_epochs[key] = max(state.leader_epoch, self._leader_epochs.get(key, state.leader_epoch))
        self._state_epochs[key] = max(state.state_epoch, self._state_epochs.get(key, state.state_epoch))

    def _drop(self, key: Key, at: LogPlace) -> None:
        self.states.pop(key, None)
        self._updates.pop(key, None)
        self._leader_epochs.pop(key, None)
        self._state_epochs.pop(key, None)
        index, offset = at
        self._needed[index].deleted(key, offset)

    # Periodic work

    def _prune(self, now: int) -> Generator[None, Any, Idle]:
        """Delete the records of __share_group_state that are no longer needed."""
        pause = pauses(WRITES)
        idle: Idle = NEVER
        for index, needed in list(self._needed.items()):
            yield from pause()
            log = self._cluster.partition(SHARE_TOPIC, index)
            if log is None or log.leader == NO_LEADER or not log.log_start_offset < needed.first <= log.high_watermark:
                continue
            before = log.log_start_offset
            log.delete_records(needed.first, now)
            self._cluster.report(RetentionRow(log.topic, index, before, log.log_start_offset))
            idle = None
        return idle

    def _write_again(self, now: int) -> Generator[None, Any, Idle]:
        """Write new snapshots of the share partitions whose last snapshot is old, so that the older records can be deleted. If
        all the last snapshots were written by this method, no share group has been used since then. So the method writes no new
        snapshots.
        """
        pause, least = pauses(WRITES), self._cluster.configs.integer(COLD)
        until, changed = NEVER, False
        for needed in list(self._needed.values()):
            held = [key for key in needed if key in self.states]
            if all(self.states[key].created != self.states[key].written for key in held):
                continue
            for key in held:
                yield from pause()
                state = self.states.get(key)
                if state is None:
                    continue
                if state.written <= now < state.written + least:  # a soft reset may have set the clock back
                    until = min(until, state.written + least)
                    continue
                again = state._replace(snapshot_epoch=state.snapshot_epoch + 1, written=now)
                changed = self._snapshot(key, again, now) is None or changed
        return None if changed else until


def _merged(
    held: ShareState, leader_epoch: int, start_offset: int, completed: int, batches: Sequence[StateBatch]
) -> ShareState:
    """Returns the state after these changes. `held` is the state before the changes."""
    snapshot_epoch, state_epoch, held_leader_epoch, held_start, _, held_batches, created, written = held
    start = held_start if start_offset == UNKNOWN else start_offset
    leader = held_leader_epoch if leader_epoch == UNKNOWN else leader_epoch
    changed = tuple(combined(held_batches, batches, start))
    return ShareState(snapshot_epoch, state_epoch, leader, start, completed, changed, created, written)


def _progress(held: ShareState, start_offset: int, completed: int) -> tuple[int, int]:
    """Returns the start offset and the number of completed records after a write of these two values. A write never lowers the
    start offset."""
    if start_offset < held.start_offset:
        return held.start_offset, held.completed
    return start_offset, max(completed, held.completed) if start_offset == held.start_offset else completed


def _stored(kind: type[S], batch: StateBatch) -> S:
    first, last, state, count = batch
    return kind(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


@lru_cache(maxsize=1 << 10)
def _record_key(kind: RecordKey, key: Key) -> bytes:
    """Returns the key that a share partition's records of this kind have. Raises EncodeError."""
    group_id, topic_id, index = key
    return encode_key(kind(group_id=group_id, topic_id=topic_id, partition=index))


def _batch(read: share_snapshot.StateBatch | share_update.StateBatch) -> StateBatch:
    return StateBatch(read.first_offset, read.last_offset, read.delivery_state, read.delivery_count)
