"""A share partition: the records of one partition as one share group sees them (Kafka's SharePartition).

`SharePartition` has no clock and no log. Each record is available, acquired by a member under a lock, acknowledged, or
archived. The start offset moves up to the first record that is neither acknowledged nor archived, and the share partition
forgets the records before its start offset. An acknowledgement is written down before it takes effect. Acquisitions are not
written down, so after a restart the acquired records are available again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from kafkawire.errors import ErrorCode
from wirebroker.common.changes import ShareEvent, ShareRow
from wirebroker.core.cluster import Cluster
from wirebroker.core.purgatory import Timer, Timers
from wirebroker.core.refusals import Refusal
from wirebroker.core.share.in_flight import NOBODY, Batches, InFlight, InFlightBatch, Limits, RecordState, StateBatch
from wirebroker.core.share.settings import ShareSettings

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The types of an acknowledgement. A client sends GAP for an offset at which the log has no record."""
NEXT_STATE = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


class Acknowledged(NamedTuple):
    """A client's acknowledgement of the records from `first` to `last`. `types` has one type for all records, or one for each
    record."""

    first: int
    last: int
    types: Sequence[int]


class Stored(Protocol):
    """The store of a share partition: writes its state and its dead letters."""

    def write(self, partition: SharePartition, batches: Sequence[StateBatch], now: int) -> Refusal | None:
        """Write down the changed states in `batches`. Returns the reason if the write is refused, else None."""

    def bury(self, partition: SharePartition, records: StateBatch, rejected: bool, now: int) -> None:
        """Write the dead letters of `records`, then call `partition.buried`. `rejected` is True if a member has rejected the
        records. It is False if the records were delivered too often.
        """


class Broken(Exception):
    """Raised where Kafka's code fails with an unexpected exception. The client gets UNKNOWN_SERVER_ERROR."""


class Undo(NamedTuple):
    """A change of the state of a record or a batch. It has the data that are needed to undo the change: the former state, the
    former member, and the offsets."""

    record: InFlight
    state: RecordState
    member_id: str
    first: int
    last: int
    rejected: bool


INVALID = ErrorCode.INVALID_RECORD_STATE
NOT_ACQUIRED = Refusal(INVALID, "The batch cannot be acknowledged. The batch is not in the acquired state.")
NO_RENEWAL = Refusal(INVALID, "Renewing acquisition locks is not enabled for the group.")


class SharePartition:
    """The state that one share group has of one partition. Times are in ms since the epoch.

    The share partition calls `woken(now)` when more records may be available, and `cluster.watch` for each change of a record's
    state.
    """

    def __init__(
        self, topic: str, key: tuple[str, bytes, int], leader_epoch: int, settings: ShareSettings, timers: Timers,
        stored: Stored, woken: Callable[[int], None], cluster: Cluster,
    ) -> None:  # fmt: skip
        self.topic = topic
        self.group_id, self.topic_id, self.index = key
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self._settings = settings
        self.batches = Batches()
        self.start_offset = 0
        self.end_offset = 0
        """The largest offset that was ever acquired, or the start offset if no record is in flight."""
        self.completed = 0
        """The number of records, from the start offset on, that are acknowledged or archived."""
        self.looks_for_next = False
        """Tells whether a record at or before `end_offset` may be available."""
        self._gap: tuple[int, int] | None = None
        """Two offsets: the offset of the first record that may be in a gap between the loaded batches, and the end offset at
        the time when the state was loaded."""
        self._timers = timers
        self._stored = stored
        self._woken = woken
        self._cluster = cluster

    def load(self, start_offset: int, state_epoch: int, batches: Iterable[StateBatch]) -> None:
        """Load the state that was written down. Raises Broken if the batches contradict `start_offset` or each other."""
        self.start_offset, self.state_epoch = start_offset, state_epoch
        before, gap = start_offset - 1, -1
        for batch in batches:
            if batch.first < start_offset or batch.last < batch.first:
                raise Broken(f"Failed to initialize the share partition {self.group_id}")
            if gap == -1 and batch.first > before + 1:
                gap = before + 1
            before = batch.last
            state = RecordState(batch.state)
            self.batches.put(InFlightBatch(batch.first, batch.last, InFlight(state, batch.delivery_count, NOBODY)))
            if state.is_terminal:
                self.completed += batch.last - batch.first + 1
        self.end_offset = start_offset
        if len(self.batches):
            self.looks_for_next = True
            self.end_offset = self.batches.last.last
            if gap != -1:
                self._gap = gap, self.end_offset
            self._move_start()

    @property
    def limits(self) -> Limits:
        """The current limits of the share group."""
        return self._settings.limits

    # Where to fetch

    @property
    def gap_start(self) -> int | None:
        """The offset of the first record that may be in a gap between the loaded batches, or None if there is no such gap."""
        return self._gap[0] if self._gap is not None and self._gap[1] == self.end_offset else None

    def move_gap(self, offset: int) -> None:
        """Register that the records before `offset` were acquired, so that gaps are possible only from `offset` on."""
        if self._gap is not None:
            inside = self._gap[1] == self.end_offset and offset <= self._gap[1]
            self._gap = (offset, self._gap[1]) if inside else None

    @property
    def in_flight(self) -> int:
        """The number of offsets from the start offset to the end offset, or 0 if no record is in flight."""
        return self.end_offset - self.start_offset + 1 if len(self.batches) else 0

    def next_fetch_offset(self) -> int:
        """Returns the offset of the next record to acquire."""
        if not len(self.batches) or self.start_offset > self.batches.last.last:
            self.looks_for_next = False
            return self.end_offset
        if self.looks_for_next:
            found = self._first_available()
            if found is not None:
                return found
            self.looks_for_next = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        gap = self.gap_start
        for batch in self.batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for first, _, record in batch.states():
                if record.available:
                    return first
        return None

    def can_acquire(self) -> bool:
        """Tells whether records can be acquired. This is so if a record that was given out before is available again, or if the
        limit of records in flight allows new records."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.in_flight < self.limits.in_flight

    # Locks

    def lock(self, member_id: str, first: int, last: int, when: int) -> Timer:
        """Returns a member's lock on the records from `first` to `last`. The lock ends at the time `when`."""
        return self._timers.at(when, lambda now: self._expire(member_id, first, last, now))

    def _expire(self, member_id: str, first: int, last: int, now: int) -> None:
        """A lock has ended: release its records, if they are still acquired."""
        floor = self.batches.floor(first)
        if floor is None:
            return
        changed: list[StateBatch] = []
        for batch in self.batches.between(floor.first, last):
            if batch.records is None and batch.whole.state is RecordState.ACQUIRED and self._starts_within(batch):
                batch.split(self.lock)
            for at, to, record in batch.states():
                if batch.records is not None and not first <= at <= last:
                    continue
                if record.state is RecordState.ACQUIRED:
                    changed.append(self._unlocked(record, at, to, member_id))
        if changed:
            refused = self._stored.write(self, changed, now)
            self._move_start()
            self._woken(now)
            for each in changed if refused is None else ():
                self._bury(each, False, now)

    def _unlocked(self, record: InFlight, first: int, last: int, member_id: str) -> StateBatch:
        record.settle(self._released(last), self.limits)
        record.unlock()
        self._count_completed(record, first, last)
        self.looks_for_next |= record.available
        self.tell("lock_expired", first, last, member_id, record)
        return StateBatch(first, last, record.state, record.delivery_count)

    def _released(self, last: int) -> RecordState:
        return RecordState.ARCHIVED if last < self.start_offset else RecordState.AVAILABLE

    def _starts_within(self, batch: InFlightBatch) -> bool:
        return batch.first < self.start_offset <= batch.last

    def _count_completed(self, record: InFlight, first: int, last: int, step: int = 1) -> None:
        if record.state.is_terminal and last >= self.start_offset:
            self.completed += step * (last - max(first, self.start_offset) + 1)

    def tell(self, what: ShareEvent, first: int, last: int, member_id: str, record: InFlight, why: str = "") -> None:
        """Report the changes of records, if `watch` is set."""
        watch = self._cluster.watch
        if watch is not None:
            state = record.state.name.lower()
            watch(
                ShareRow(what, self.group_id, self.topic, self.index, first, last, member_id, state, record.delivery_count, why)
            )

    # Acknowledgements

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledged], now: int) -> Refusal | list[Undo]:
        """Apply a member's acknowledgements: either all of `batches`, or none. Returns either the refusal, or the changes,
        which the caller passes to `finish`. Raises Broken."""
        changed: list[Undo] = []
        limits = self.limits
        for batch in batches:
            if batch.last < self.start_offset:
                continue
            found = self._acknowledged_batches(batch)
            if isinstance(found, Refusal):
                refused: Refusal | None = found
            else:
                refused = self._acknowledge(member_id, batch, found, changed, limits, now)
            if refused is not None:
                self._undo(changed)
                return refused
        return changed

    def _acknowledged_batches(self, batch: Acknowledged) -> list[InFlightBatch] | Refusal:
        floor = self.batches.floor(batch.first)
        if floor is None:
            if not batch.first < self.start_offset <= batch.last:
                return Refusal(INVALID, "Batch record not found. The request batch offsets are not found in the cache.")
            floor = self.batches.floor(self.start_offset)
            if floor is None:
                raise Broken("the start offset has passed all records in flight")
        found = self.batches.between(floor.first, batch.last)
        past = "Batch record not found. The {} offset in request is past acquired records."
        if found[-1].last < batch.first:
            return Refusal(ErrorCode.INVALID_REQUEST, past.format("first"))
        if batch.last > found[-1].last:
            return Refusal(ErrorCode.INVALID_REQUEST, past.format("last"))
        return found

    def _acknowledge(
        self, member_id: str, batch: Acknowledged, held: Sequence[InFlightBatch], changed: list[Undo], limits: Limits, now: int
    ) -> Refusal | None:
        for each in held:
            if each.last < self.start_offset:
                continue
            if each.records is None:
                if each.whole.member_id == NOBODY:
                    return NOT_ACQUIRED
                if each.whole.member_id != member_id:
                    return Refusal(INVALID, "Member is not the owner of batch record")
            covers = each.first >= batch.first and each.last <= batch.last
            if covers and each.records is None and len(batch.types) == 1 and not self._starts_within(each):
                refused = self._settle(member_id, each.first, each.last, each.whole, batch.types[0], changed, limits, now)
            else:
                refused = self._acknowledge_some(member_id, batch, each, changed, limits, now)
            if refused is not None:
                return refused
        return None

    def _acknowledge_some(
        self, member_id: str, batch: Acknowledged, held: InFlightBatch, changed: list[Undo], limits: Limits, now: int
    ) -> Refusal | None:
        if held.records is None and held.whole.state is not RecordState.ACQUIRED:
            return Refusal(INVALID, "The batch cannot be acknowledged. The subset batch is not in the acquired state.")
        records = held.split(self.lock)
        for offset in range(max(held.first, batch.first, self.start_offset), min(held.last, batch.last) + 1):
            record = records[offset]
            if record.state is not RecordState.ACQUIRED:
                return Refusal(INVALID, "The offset cannot be acknowledged. The offset is not acquired.")
            if record.member_id != member_id:
                return Refusal(INVALID, "Member is not the owner of offset")
            kind = batch.types[offset - batch.first] if len(batch.types) > 1 else batch.types[0]
            refused = self._settle(member_id, offset, offset, record, kind, changed, limits, now)
            if refused is not None:
                return refused
        return None

    def _settle(
        self, member_id: str, first: int, last: int, record: InFlight, kind: int, changed: list[Undo], limits: Limits, now: int
    ) -> Refusal | None:
        if kind == RENEW:
            if not limits.renews:
                return NO_RENEWAL
            record.unlock()
            record.lock = self.lock(member_id, first, last, now + limits.lock_ms)
            return None
        self._change(record, NEXT_STATE[kind], first, last, changed, limits, kind == REJECT)
        return None

    def _change(
        self, record: InFlight, wanted: RecordState, first: int, last: int, changed: list[Undo], limits: Limits, rejected: bool
    ) -> None:
        changed.append(Undo(record, record.state, record.member_id, first, last, rejected))
        record.settle(RecordState.ARCHIVING if rejected and limits.has_dead_letters else wanted, limits)
        record.moving = True
        self._count_completed(record, first, last)

    def _undo(self, changed: Iterable[Undo]) -> None:
        """Undo changes. If a record's lock has ended meanwhile, the record is not acquired again (InFlightState)."""
        most = self.limits.deliveries
        for record, state, member_id, first, last, _ in changed:
            record.moving = False
            if record.lock is None:  # archived meanwhile
                continue
            self._count_completed(record, first, last, -1)
            record.state, record.member_id = state, member_id
            if record.lock.action is None:
                lasts = record.delivery_count < most
                record.state, record.member_id = RecordState.AVAILABLE if lasts else RecordState.ARCHIVED, NOBODY
                record.unlock()
                self._count_completed(record, first, last)
                self.looks_for_next |= record.available

    def release(self, member_id: str) -> list[Undo]:
        """Release all records that the member has acquired, because its session has ended. Returns the changes. The caller
        passes these changes to `finish`."""
        changed: list[Undo] = []
        limits = self.limits
        for batch in self.batches:
            if (
                batch.records is None
                and batch.whole.state is RecordState.ACQUIRED
                and batch.whole.member_id == member_id
                and self._starts_within(batch)
            ):
                batch.split(self.lock)
            for first, last, record in batch.states():
                if record.member_id == member_id and record.state is RecordState.ACQUIRED:
                    self._change(record, self._released(last), first, last, changed, limits, False)
        return changed

    def finish(self, changed: Sequence[Undo], now: int) -> Refusal | None:
        """Write down changes. If the write fails, undo the changes and return the reason. Kafka writes in the background, so a
        fetch does not see the effect of acknowledgements in the same request. In wirebroker, such a fetch does not see the
        effect, either.
        """
        if not changed:
            return None
        batches = [StateBatch(each.first, each.last, each.record.state, each.record.delivery_count) for each in changed]
        refused = self._stored.write(self, batches, now)
        if refused is not None:
            self._undo(changed)
            return refused
        for record, _, member_id, first, last, _ in changed:
            record.moving = False
            record.unlock()
            self.looks_for_next |= record.available
            self.tell("released" if record.available else "settled", first, last, member_id, record)
        if self._move_start():
            self._woken(now)
        for written, change in zip(batches, changed, strict=True):
            self._bury(written, change.rejected, now)
        return None

    # Dead letters

    def _bury(self, records: StateBatch, rejected: bool, now: int) -> None:
        if records.state == RecordState.ARCHIVING:
            self._stored.bury(self, records, rejected, now)

    def bury_the_rest(self, now: int) -> None:
        """Write the dead letters of records that the loaded state shows as ARCHIVING."""
        deliveries = self.limits.deliveries
        for batch in list(self.batches):
            for first, last, record in list(batch.states()):
                rejected = record.delivery_count < deliveries
                self._bury(StateBatch(first, last, record.state, record.delivery_count), rejected, now)

    def buried(self, records: StateBatch, why: str, now: int) -> None:
        """Archive records after the attempt to write their dead letters. `why` is "" or the reason why a dead letter could not
        be written."""
        floor = self.batches.floor(records.first)
        for batch in self.batches.between(floor.first if floor is not None else records.first, records.last):
            for first, last, record in batch.states():
                if record.state is RecordState.ARCHIVING and records.first <= first and last <= records.last:
                    record.archive()
                    self._count_completed(record, first, last)
                    self.tell("buried", first, last, NOBODY, record, why)
        self._stored.write(self, [records._replace(state=RecordState.ARCHIVED)], now)
        if self._move_start():
            self._woken(now)

    # The start offset

    def _move_start(self) -> bool:
        """Move the start offset up to the first record that is not completed. Returns True if the start offset has moved."""
        if not self._starts_with_completed():
            return False
        last, count = self._last_completed()
        if last == -1:
            return False
        if last == self.batches.last.last:
            self.start_offset = self.end_offset = last + 1
            self.batches.clear()
            self.completed = 0
            return True
        self.completed -= count
        held = self.batches.floor(last)
        following = self.batches.after(last)
        assert held is not None
        if last == held.last:
            assert following is not None
            self.start_offset = max(following.first, self.start_offset)
            if self.gap_start is not None:
                self.start_offset = min(self.gap_start, self.start_offset)
            self.batches.drop_before(held.first + 1)
        else:
            self.start_offset = max(last + 1, self.start_offset)
            self.batches.drop_before(held.first)
        return True

    def _starts_with_completed(self) -> bool:
        held = self.batches.floor(self.start_offset)
        if held is None:
            return False
        record = held.whole if held.records is None else held.records.get(self.start_offset)
        return record is not None and record.completed

    def _last_completed(self) -> tuple[int, int]:
        """Returns two values: the last offset before the first record that is not completed, and the number of completed
        records from the start offset to this last offset."""
        found, count, gap = -1, 0, self.gap_start
        for batch in self.batches:
            if gap is not None and batch.last >= gap:
                break
            for first, last, record in batch.states():
                if not record.completed:
                    return found, count
                found = last
                count += max(last - max(first, self.start_offset) + 1, 0)
        return found, count

    def log_starts_at(self, offset: int) -> None:
        """Archive the available records before the new start of the partition's log. Acquired records stay acquired."""
        if offset <= self.start_offset:
            return
        if not len(self.batches):
            self.start_offset = self.end_offset = offset
            self.completed = 0
            return
        gone = self._completed_before(offset)
        if self.archive(self.start_offset, offset, self.batches, RecordState.AVAILABLE, counted=False):
            self.looks_for_next = True
        self.start_offset = offset
        self.completed -= gone
        self.end_offset = max(self.end_offset, offset)

    def _completed_before(self, offset: int) -> int:
        return sum(
            max(min(offset - 1, last) - max(self.start_offset, first) + 1, 0)
            for batch in self.batches.between(0, offset - 1)
            for first, last, record in batch.states()
            if record.state.is_terminal
        )

    def archive_stale(self, fetch_offset: int, base_offset: int) -> None:
        """Archive the available records at or after `fetch_offset` and before `base_offset`, because the log no longer has
        these records (after compaction, for example)."""
        if not len(self.batches) or fetch_offset >= base_offset:
            return
        floor = self.batches.floor(fetch_offset)
        begin = floor.first if floor is not None and floor.last >= fetch_offset else fetch_offset
        stale = self.batches.between(begin, base_offset - 1)
        if self.archive(fetch_offset, base_offset, stale, RecordState.AVAILABLE, counted=True):
            self.looks_for_next = True

    def archive(self, start: int, end: int, batches: Iterable[InFlightBatch], state: RecordState, *, counted: bool) -> bool:
        """Archive the records in the state `state` whose offsets are at or after `start` and before `end`. Returns whether any
        record was archived."""
        found = False
        for batch in batches:
            if batch.first >= end:
                break
            if batch.records is None:
                if batch.whole.state is not state:
                    continue
                if batch.first < start or batch.last >= end:
                    batch.split(self.lock)
            for first, last, record in batch.states():
                if first >= start and last < end and record.state is state:
                    record.archive()
                    self.completed += (last - first + 1) if counted else 0
                    found = True
        return found

    def close(self) -> None:
        """Cancel all locks, because the share partition is closed."""
        for batch in self.batches:
            for _, _, record in batch.states():
                record.unlock()
