"""Acquiring records of a share partition for a member (SharePartition.acquire).

If a record was delivered often, perhaps no consumer can process it. So, when half of the allowed deliveries are used up, fewer
and fewer other records are given out together with the record. In the last delivery, the record is given out alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from kafkawire.batches import BatchSpan
from wirebroker.core.share.in_flight import NOBODY, InFlight, InFlightBatch, RecordState, StateBatch
from wirebroker.core.share.partition import SharePartition

MINIMUM_THROTTLE = 2
_base = itemgetter(0)
Acquired = StateBatch
"""Consecutive acquired records with the same number of deliveries."""


class Acquisition:
    """The acquisition of records of one share partition by one member. `by_records` is set in the acquire mode "record_limit".

    `batches` are the whole batches that were read from the log. After `acquire`, `count` is the number of acquired offsets.
    """

    def __init__(
        self, partition: SharePartition, member_id: str, batches: Sequence[BatchSpan], now: int, *, by_records: bool,
        batch_size: int,
    ) -> None:  # fmt: skip
        self._partition = partition
        self._member_id = member_id
        self._batches = batches
        self.limits = partition.limits
        self._until = now + self.limits.lock_ms
        self._by_records = by_records
        self._batch_size = batch_size
        self._limit = 0
        self._first = self._last = 0
        self.count = 0
        self.acquired: list[Acquired] = []

    def acquire(self, fetch_offset: int, max_records: int) -> list[Acquired]:
        """Acquire up to `max_records` records. In the mode "batch_optimized", the rest of the batch that contains the last
        record is acquired, too."""
        partition, fetched = self._partition, self._batches
        if not fetched or max_records <= 0 or fetched[-1].last < partition.start_offset:
            return []
        self._first, self._last = fetched[0].base, fetched[-1].last
        self._make_room(fetch_offset, max_records)
        if self._limit <= 0:
            return []
        base = self._first
        partition.archive_stale(fetch_offset, base)
        floor = partition.batches.floor(base)
        if floor is None:
            base = max(base, partition.start_offset)
        elif floor.last >= base:
            base = floor.first
        held = partition.batches.between(min(self._first, base), self._last)
        if not held:
            self._acquire_new(base, self._last, self._limit)
            return self.acquired
        self._acquire_held(base, held)
        if self.count < self._limit and held[-1].last < self._last:
            self._acquire_new(held[-1].last + 1, self._last, self._limit - self.count)
        if self.acquired:
            partition.move_gap(self.acquired[-1].last + 1)
        return self.acquired

    def _make_room(self, fetch_offset: int, max_records: int) -> None:
        """Compute how many records may be acquired. If the limit of records in flight is reached, only records that were
        already given out can be acquired again."""
        partition = self._partition
        self._limit = min(max_records, self.limits.in_flight - partition.in_flight)
        if self._limit <= 0 and fetch_offset <= partition.end_offset:
            self._limit = min(max_records, partition.end_offset - fetch_offset + 1)
            self._last = min(self._last, partition.end_offset)

    def _acquire_held(self, base: int, held: Sequence[InFlightBatch]) -> None:
        """Acquire the available records in the batches of `held`. After a restart, also acquire the records in the gaps between
        these batches."""
        partition = self._partition
        at = base
        for batch in held:
            if self.count >= self._limit:
                return
            if partition.gap_start is not None:
                if at < batch.first:
                    self._acquire_new(at, batch.first - 1, self._limit - self.count)
                at = batch.last + 1
                if self.count >= self._limit:
                    return
            if not self._acquire_batch(batch):
                self._limit = 0
                return

    def _acquire_batch(self, batch: InFlightBatch) -> bool:
        """Acquire the available records in a batch. Returns False if this acquisition must not go on to later batches."""
        room = self._limit - self.count
        throttled = self._is_throttled(batch)
        if throttled and self.count > 0:
            return False
        whole = batch.first >= self._first and batch.last <= self._last
        if whole and batch.records is None and not (self._by_records and len(batch) > room) and not throttled:
            if batch.whole.available:
                self._take(batch.first, batch.last, batch.whole)
                self._add(batch.first, batch.last, batch.whole.delivery_count)
            return True
        if batch.records is None and not batch.whole.available:
            return True
        taken = self._acquire_some(batch.split(self._partition.lock), room)
        return not (throttled and taken)

    def _take(self, first: int, last: int, record: InFlight) -> None:
        record.acquire(self._member_id)
        record.lock = self._partition.lock(self._member_id, first, last, self._until)
        self._partition.tell("acquired", first, last, self._member_id, record)

    def _add(self, first: int, last: int, delivery_count: int) -> None:
        self.acquired.append(Acquired(first, last, RecordState.ACQUIRED, delivery_count))
        self.count += last - first + 1

    @property
    def _throttle(self) -> int:
        """If a record was delivered at least this often, fewer other records are acquired together with it."""
        return max(MINIMUM_THROTTLE, (self.limits.deliveries + 1) // 2)

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        available = [
            record.delivery_count
            for first, _, record in batch.states()
            if record.available and (batch.records is None or self._first <= first <= self._last)
        ]
        return max(available, default=0) >= self._throttle

    def _acquire_some(self, records: dict[int, InFlight], room: int) -> int:
        """Acquire some of the records of a batch. Returns the number of acquired records."""
        limit = self.limits.deliveries
        taken: list[Acquired] = []
        at_most = -1
        for offset, record in records.items():
            if offset > self._last:
                break
            if offset < self._first or not record.available:
                continue
            if limit > MINIMUM_THROTTLE and record.delivery_count == limit - 1 and taken:
                break
            if record.delivery_count >= self._throttle and at_most < 0:
                at_most = max(1, len(records) >> (record.delivery_count - self._throttle + 1))
            self._take(offset, offset, record)
            taken.append(Acquired(offset, offset, RecordState.ACQUIRED, record.delivery_count))
            if record.delivery_count == limit > MINIMUM_THROTTLE:
                break
            if (self._by_records and len(taken) == room) or len(taken) == at_most:
                break
        for first, last, count in _joined(taken):
            self._add(first, last, count)
        return len(taken)

    def _acquire_new(self, first: int, last: int, room: int) -> None:
        """Acquire records that no member has acquired before."""
        partition = self._partition
        if not len(partition.batches) and partition.end_offset > first:
            first = partition.end_offset
        if room < last - first + 1:
            end = self._end_of_batch(first + room - 1)
            last = min(end, last) if partition.gap_start is not None else end
        made = self._make(first, last, room)
        if partition.batches.first.first == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        if self._by_records:
            last = made[0].last
        partition.move_gap(last + 1)
        self.acquired += made
        self.count += last - first + 1

    def _end_of_batch(self, offset: int) -> int:
        """Returns the last offset of the fetched batch that contains `offset`, or `offset` if no fetched batch contains it."""
        at = bisect_right(self._batches, offset, key=_base) - 1
        return max(offset, self._batches[at].last) if at >= 0 else offset

    def _make(self, first: int, last: int, room: int) -> list[Acquired]:
        """Acquire the records from `first` to `last` in new batches. In the mode "batch_optimized", a new batch ends as soon as
        it has at least `batch_size` records and is at the end of a fetched batch."""
        if self._by_records and last - first + 1 > room:
            return [self._make_partly(first, last, room)]
        made = []
        if not self._by_records and last - first + 1 > self._batch_size:
            for batch in self._batches:
                if batch.base > last:
                    break
                if batch.base - first >= self._batch_size:
                    made.append(Acquired(first, batch.base - 1, RecordState.ACQUIRED, 1))
                    first = batch.base
        made.append(Acquired(first, last, RecordState.ACQUIRED, 1))
        for each in made:
            record = InFlight(RecordState.AVAILABLE, 0, NOBODY)
            self._partition.batches.put(InFlightBatch(each.first, each.last, record))
            self._take(each.first, each.last, record)
        return made

    def _make_partly(self, first: int, last: int, room: int) -> Acquired:
        """Put the records from `first` to `last` into a new batch, and acquire only the first `room` of them."""
        partition = self._partition
        batch = InFlightBatch(first, last, InFlight(RecordState.AVAILABLE, 0, NOBODY))
        for offset, record in batch.split(partition.lock).items():
            if offset < first + room:
                self._take(offset, offset, record)
        partition.looks_for_next = True
        partition.batches.put(batch)
        return Acquired(first, first + room - 1, RecordState.ACQUIRED, 1)


def _joined(taken: Sequence[Acquired]) -> list[tuple[int, int, int]]:
    """Joins adjacent records that have the same number of deliveries. For each group of joined records, returns the first
    offset, the last offset and the number of deliveries."""
    found: list[tuple[int, int, int]] = []
    for first, last, _, count in taken:
        if found and found[-1][1] + 1 == first and found[-1][2] == count:
            found[-1] = (found[-1][0], last, count)
        else:
            found.append((first, last, count))
    return found


def without(acquired: Sequence[Acquired], aborted: Sequence[BatchSpan]) -> list[Acquired]:
    """Returns the acquired records in order, except records of aborted transactions."""
    left = list(acquired)
    for gone in aborted:
        cut: list[Acquired] = []
        for each in left:
            if each.last < gone.base or each.first > gone.last:
                cut.append(each)
                continue
            if each.first < gone.base:
                cut.append(each._replace(last=gone.base - 1))
            if each.last > gone.last:
                cut.append(each._replace(first=gone.last + 1))
        left = cut
    return left
