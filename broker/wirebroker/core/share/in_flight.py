"""The records that a share partition has given out. The records are kept in batches, as in Kafka's InFlightBatch.

At first a batch has one state for all its records. Each record gets its own state when, for example, a client acknowledges only
some records of the batch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

from wirebroker.core.purgatory import Timer

Key = tuple[str, bytes, int]
"""The key of a share partition: the group id, the topic id and the partition number."""
NOBODY = ""
"""The member id of a record that no member has acquired."""


class RecordState(IntEnum):
    """The state of a record. The value is the state's number in __share_group_state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """The record's dead letter is not written yet."""
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Tells whether a record in this state is never delivered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class StateBatch(NamedTuple):
    """Consecutive records in the same state, in the form in which __share_group_state stores them."""

    first: int
    last: int
    state: int
    delivery_count: int


class Limits(NamedTuple):
    """The settings of a share group that limit the use of its records."""

    lock_ms: int
    """The time in ms after which an acquisition ends (share.record.lock.duration.ms)."""
    deliveries: int
    """The largest number of deliveries of a record (share.delivery.count.limit)."""
    in_flight: int
    """The largest number of a partition's records that may be in flight (share.partition.max.record.locks)."""
    renews: bool
    """Tells whether members may renew a lock (share.renew.acknowledge.enable)."""
    has_dead_letters: bool
    """Tells whether a record gets a dead letter if a member rejects it, or if it is delivered too often."""
    committed: bool
    """Tells whether the isolation level is read_committed (share.isolation.level)."""


class InFlight:
    """The state of a record, or of all records in a batch."""

    __slots__ = ("delivery_count", "lock", "member_id", "moving", "state")

    def __init__(self, state: RecordState, delivery_count: int, member_id: str, lock: Timer | None = None) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        """The timer that ends the acquisition."""
        self.moving = False
        """Tells whether the state has changed and the change is not written down yet."""

    @property
    def available(self) -> bool:
        """Tells whether a member may acquire the record."""
        return self.state is RecordState.AVAILABLE and not self.moving

    @property
    def completed(self) -> bool:
        """Tells whether the record is never delivered again."""
        return self.state.is_terminal and not self.moving

    def acquire(self, member_id: str) -> None:
        """Give an available record to a member."""
        self.state, self.member_id = RecordState.ACQUIRED, member_id
        self.delivery_count += 1

    def settle(self, wanted: RecordState, limits: Limits) -> None:
        """Change an acquired record to the state `wanted`. A record that was delivered too often is archived and does not
        become available again. If the group has dead letters, the dead letter is written before the record is archived."""
        if wanted is RecordState.AVAILABLE and self.delivery_count >= limits.deliveries:
            wanted = RecordState.ARCHIVING if limits.has_dead_letters else RecordState.ARCHIVED
        self.state, self.member_id = wanted, NOBODY

    def archive(self) -> None:
        """Archive the record, so that it is not delivered again."""
        self.state, self.member_id = RecordState.ARCHIVED, NOBODY
        self.unlock()

    def unlock(self) -> None:
        """Forget the lock."""
        if self.lock is not None:
            self.lock.cancel()
            self.lock = None


NewLock = Callable[[str, int, int, int], Timer]
"""A function that creates a member's lock on records. Its arguments are the member id, the first and the last offset, and the
time at which the lock ends (ms since the epoch)."""


class InFlightBatch:
    """Consecutive records. Either the records have one common state (`whole`), or each record has its own state (`records`, in
    the order of the offsets)."""

    __slots__ = ("_whole", "first", "last", "records")

    def __init__(self, first: int, last: int, whole: InFlight) -> None:
        self.first = first
        self.last = last
        self._whole = whole
        self.records: dict[int, InFlight] | None = None

    @property
    def whole(self) -> InFlight:
        """The state of all records. Read this property only while `records` is None."""
        assert self.records is None
        return self._whole

    def __len__(self) -> int:
        return self.last - self.first + 1

    def states(self) -> Iterator[tuple[int, int, InFlight]]:
        """Yields a first offset, a last offset and their state: once for the whole batch if it has a common state, else once
        for each record."""
        if self.records is None:
            yield self.first, self.last, self._whole
        else:
            for offset, record in self.records.items():
                yield offset, offset, record

    def split(self, new_lock: NewLock) -> dict[int, InFlight]:
        """Replace the common state by a state for each record. The locks of the records end at the time at which the batch's
        lock would have ended."""
        if self.records is None:
            whole = self._whole
            self.records = {}
            for offset in range(self.first, self.last + 1):
                lock = None if whole.lock is None else new_lock(whole.member_id, offset, offset, whole.lock.when)
                self.records[offset] = InFlight(whole.state, whole.delivery_count, whole.member_id, lock)
            whole.unlock()
        return self.records


class Batches:
    """Batches in the order of their first offsets."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._held: dict[int, InFlightBatch] = {}

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return (self._held[first] for first in self._firsts)

    @property
    def first(self) -> InFlightBatch:
        """The first batch. There must be at least one batch."""
        return self._held[self._firsts[0]]

    @property
    def last(self) -> InFlightBatch:
        """The last batch. There must be at least one batch."""
        return self._held[self._firsts[-1]]

    def put(self, batch: InFlightBatch) -> None:
        """Add a batch. An earlier batch with the same first offset is replaced."""
        if batch.first not in self._held:
            insort(self._firsts, batch.first)
        self._held[batch.first] = batch

    def floor(self, offset: int) -> InFlightBatch | None:
        """Returns the last batch that begins at or before this offset."""
        at = bisect_right(self._firsts, offset)
        return self._held[self._firsts[at - 1]] if at else None

    def after(self, offset: int) -> InFlightBatch | None:
        """Returns the first batch that begins after this offset."""
        at = bisect_right(self._firsts, offset)
        return self._held[self._firsts[at]] if at < len(self._firsts) else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Returns the batches whose first offset is between `first` and `last`, both included."""
        return [self._held[each] for each in self._firsts[bisect_left(self._firsts, first) : bisect_right(self._firsts, last)]]

    def drop_before(self, offset: int) -> None:
        """Forget the batches that begin before this offset."""
        at = bisect_left(self._firsts, offset)
        for first in self._firsts[:at]:
            del self._held[first]
        del self._firsts[:at]

    def clear(self) -> None:
        self._firsts.clear()
        self._held.clear()
