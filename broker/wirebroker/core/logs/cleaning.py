"""Compaction keeps the last record of each key (Kafka's Cleaner, LogToClean and CleanedTransactionMetadata).

A round of compaction reads the closed segments before the first open transaction. First the round reads the segments that were
closed after the last round, to learn the last offset of each key. Then it reads all closed segments and drops each record whose
key has a later record. The offsets of the other records do not change. A round also keeps:

* tombstones, and the markers of transactions that have no batches left: they stay until delete.retention.ms has passed since
  the first round that read them
* the last batch of each producer, without its records: at startup the producer's sequences are read from this batch
* the last batch of the round

This module only decides which records stay. The log on disk and the log in memory write the remaining batches and replace their
segments themselves. Functions that take long are generators: they yield at least once per `STEP` records or per batch, so that
the caller can do other work. The yielded value is the number of records read since the last yield.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkawire.batches import (
    DELETE_HORIZON,
    BatchHeader,
    Record,
    iter_records,
    read_header,
    read_marker,
    seal,
    write_record,
)
from kafkawire.compression import compress
from kafkawire.disk.indexes import AbortedTransaction
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.logs.interface import Owner
from wirebroker.core.producers import epoch_of, last_offset
from wirebroker.core.purgatory import NEVER

MOST_KEYS = 1_000_000
"""The largest number of keys that one round learns (log.cleaner.dedupe.buffer.size). The next round continues at the offset
where this round stopped."""
STEP = 256
"""The number of records after which a generator yields, even within a batch."""

T = TypeVar("T")
Steps = Generator[int, None, T]


class Readable(Protocol):
    """A segment that can be compacted."""

    base_offset: int
    size: int
    max_timestamp: int
    first_timestamp: int

    def batches(self, position: int) -> Iterable[tuple[int, memoryview]]:
        """Yields the batches at or after the byte `position` of the segment, each with its position."""


S = TypeVar("S", bound=Readable)


class LastRecord(NamedTuple):
    """The offset of the last batch that a producer wrote, or None if the partition has nothing of the producer except a
    transaction marker."""

    offset: int | None
    producer_epoch: int


class Task(NamedTuple, Generic[S]):
    """The information about a log that a round of compaction needs. Times are in ms."""

    segments: Sequence[S]
    """The closed segments that may be compacted."""
    first_dirty: int
    """The offset up to which earlier rounds compacted the log."""
    aborted: Sequence[AbortedTransaction]
    last_records: Mapping[int, LastRecord]
    segment_bytes: int
    delete_retention: int
    now: int


def plan(
    segments: Sequence[S], end_offset: int, cleaned_to: int, owner: Owner, configs: TopicConfigs, now: int
) -> tuple[float, Task[S]] | None:
    """Returns two values: the dirty ratio of a log, and the `Task` for compacting the log. Returns None if the log is not dirty
    enough (LogCleanerManager)."""
    if len(segments) == 1 or "compact" not in configs.text("cleanup.policy"):
        return None
    first_dirty = _first_dirty(cleaned_to, end_offset, owner)
    lag = configs.integer("min.compaction.lag.ms")
    closed = []
    for segment, following in pairwise(segments):
        too_young = lag > 0 and segment.base_offset >= first_dirty and segment.max_timestamp > now - lag
        if following.base_offset > owner.last_stable_offset or too_young:
            break
        closed.append(segment)
    new = [segment for segment in closed if segment.base_offset >= first_dirty]
    dirty, size = sum(segment.size for segment in new), sum(segment.size for segment in closed)
    if not dirty:
        return None
    longest = configs.integer("max.compaction.lag.ms")
    begun = (segment.first_timestamp for segment in segments[:-1] if segment.base_offset >= first_dirty)
    overdue = any(0 < timestamp < now - longest for timestamp in begun)
    if dirty / size <= float(configs.text("min.cleanable.dirty.ratio")) and not overdue:
        return None
    last_records = {
        key: LastRecord(None if (offset := last_offset(state)) < 0 else offset, epoch_of(state))
        for key, state in owner.producers.items()
        if isinstance(key, int)
    }
    return dirty / size, Task(
        closed, first_dirty, owner.transactions.ended_between(0, end_offset), last_records,
        configs.integer("segment.bytes"), configs.integer("delete.retention.ms"), now,
    )  # fmt: skip


def next_plan(segments: Sequence[S], end_offset: int, cleaned_to: int, owner: Owner, configs: TopicConfigs, now: int) -> int:
    """Returns the earliest time at which `plan` may return another result for the same log, or NEVER."""
    first_dirty, times = _first_dirty(cleaned_to, end_offset, owner), []
    for segment in segments[:-1] if "compact" in configs.text("cleanup.policy") else ():
        if segment.base_offset >= first_dirty:
            times.append(segment.max_timestamp + configs.integer("min.compaction.lag.ms"))
            times.append(segment.first_timestamp + configs.integer("max.compaction.lag.ms") + 1)
    return min((when for when in times if when > now), default=NEVER)


def _first_dirty(cleaned_to: int, end_offset: int, owner: Owner) -> int:
    return cleaned_to if owner.log_start_offset <= cleaned_to <= end_offset else owner.log_start_offset


class TransactionFilter:
    """Follows the transactions in a log to find two things: aborted batches, and markers of transactions that have no batches
    left."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """The producer ids for which a batch of the current transaction was read."""
        self.kept: list[AbortedTransaction] = []
        """The aborted transactions that still have batches in the log. Consumers must still learn about these transactions."""

    def discards(self, header: BatchHeader, batch: memoryview) -> bool:
        """Tells whether the batch can be removed: it is aborted, or is the marker of a transaction that has no batches left."""
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            begun = self._aborted.pop()
            self._ongoing[begun.producer_id] = begun
        producer_id = header.producer_id
        if not header.is_control:
            if not header.is_transactional:
                return False
            self._seen.add(producer_id)
            aborted = self._ongoing.get(producer_id)
            # The offsets must be compared: if this round has not read the marker of an earlier transaction, `aborted` is that
            # transaction.
            return aborted is not None and header.base_offset < aborted.last_offset
        marker = next((read_marker(record) for record in iter_records(batch)), None)
        if header.records_count == 0:
            return True
        if marker is None:
            return False
        seen = producer_id in self._seen
        self._seen.discard(producer_id)
        ended = None if marker.commit else self._ongoing.pop(producer_id, None)
        if ended is not None and seen:
            self.kept.append(ended)
        return not seen


class Cleaning(Generic[S]):
    """One round of compaction: call `learn`, and then call `left` for each batch of the segments that `groups` yields, in
    order."""

    def __init__(self, task: Task[S]) -> None:
        self.task = task
        self.known = TransactionFilter(task.aborted)
        self.end = task.first_dirty
        """After this round, the log is compacted up to this offset."""
        self._latest: dict[bytes, int] = {}

    def learn(self) -> Steps[None]:
        """Read the part of the log that no earlier round has read. Find the last offset of each key, and the end of this
        part."""
        task, known = self.task, TransactionFilter(self.task.aborted)
        ends = [following.base_offset for _, following in pairwise(task.segments)]
        for i, segment in enumerate(task.segments):
            if i < len(ends) and ends[i] <= task.first_dirty:
                continue
            if len(self._latest) >= MOST_KEYS:
                break
            for _, batch in segment.batches(0):
                header = read_header(batch)
                self.end = header.last_offset + 1
                discarded = known.discards(header, batch)
                if header.is_control or discarded or header.last_offset < task.first_dirty:
                    yield 1
                else:
                    yield from self._learn_keys(header, batch)

    def _learn_keys(self, header: BatchHeader, batch: memoryview) -> Steps[None]:
        read = 0
        for record in iter_records(batch):
            offset = header.base_offset + record.offset_delta
            if record.key is not None and offset >= self.task.first_dirty:
                self._latest[record.key] = offset
            read += 1
            if read == STEP:
                yield read
                read = 0
        yield read + 1

    def groups(self, largest: int) -> Iterator[list[S]]:
        """Yields the segments of the round in groups. A group has consecutive segments, which together have at most `largest`
        bytes."""
        group: list[S] = []
        for segment in self.task.segments:
            if segment.base_offset >= self.end:
                break
            size = sum(each.size for each in group) + segment.size
            if group and (size > largest or segment.base_offset - group[0].base_offset > 2**30):
                yield group
                group = []
            group.append(segment)
        if group:
            yield group

    def left(self, batch: memoryview) -> Steps[memoryview | bytes]:
        """Returns the batch after compaction: either the same batch, or a new batch with fewer records (perhaps none), or no
        bytes if the batch is removed."""
        header, now = read_header(batch), self.task.now
        unneeded = self.known.discards(header, batch)
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        discards = unneeded and (not header.is_control or (horizon is not None and horizon <= now))
        holds_place = _is_last_of_producer(header, self.task.last_records) or header.last_offset + 1 == self.end
        yield 1
        if discards and not holds_place:
            return b""
        kept: list[Record] = [] if discards else (yield from self._needed(header, batch, horizon))
        if not kept:
            return _without_records(header) if holds_place else b""
        begins_horizon = horizon is None and (
            (unneeded and header.is_control) or any(record.value is None for record in kept if not header.is_control)
        )
        if len(kept) == header.records_count and not begins_horizon:
            return batch
        return (yield from _with_records(header, kept, now + self.task.delete_retention if begins_horizon else horizon))

    def _needed(self, header: BatchHeader, batch: memoryview, horizon: int | None) -> Steps[list[Record]]:
        if header.is_control:
            return list(iter_records(batch))
        deletes = horizon is None or self.task.now < horizon
        kept, read = [], 0
        for record in iter_records(batch):
            if self._is_needed(record, header, deletes):
                kept.append(record)
            read += 1
            if read == STEP:
                yield read
                read = 0
        yield read
        return kept

    def _is_needed(self, record: Record, header: BatchHeader, deletes: bool) -> bool:
        offset = header.base_offset + record.offset_delta
        if offset >= self.end:
            return True
        if record.key is None:
            return False  # a record without a key was written before the topic was compacted
        return offset >= self._latest.get(record.key, -1) and (record.value is not None or deletes)


def finish(steps: Steps[T]) -> T:
    """Run a generator to its end. Returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def _is_last_of_producer(header: BatchHeader, last_records: Mapping[int, LastRecord]) -> bool:
    last = last_records.get(header.producer_id)
    if last is None or header.producer_id < 0:
        return False
    if last.offset is not None:
        return header.last_offset == last.offset
    return header.is_control and header.producer_epoch == last.producer_epoch


def _without_records(header: BatchHeader) -> bytes:
    """Returns the batch without its records: only its header (DefaultRecordBatch.writeEmptyHeader)."""
    attributes = header.attributes & ~(DELETE_HORIZON | 0x07)
    return seal(header._replace(attributes=attributes, base_timestamp=-1, records_count=0), b"")


def _with_records(header: BatchHeader, kept: Sequence[Record], horizon: int | None) -> Steps[bytes]:
    """Returns the batch with only the records in `kept`. If `horizon` is given, this delete horizon is stored in place of the
    base timestamp."""
    base = header.base_timestamp if horizon is None else horizon
    shift = header.base_timestamp - base
    body = bytearray()
    for i, record in enumerate(kept, 1):
        write_record(body, record._replace(timestamp_delta=record.timestamp_delta + shift))
        if not i % STEP:
            yield STEP
    latest = header.base_timestamp + max(record.timestamp_delta for record in kept)
    made = header._replace(
        attributes=header.attributes | (DELETE_HORIZON if horizon is not None else 0),
        base_timestamp=base,
        max_timestamp=header.max_timestamp if header.is_log_append_time else latest,
        records_count=len(kept),
    )
    return seal(made, compress(header.compression, body) if header.compression else body)
