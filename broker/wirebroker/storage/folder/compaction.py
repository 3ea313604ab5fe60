"""Compaction: of each key the last record is kept (Kafka's Cleaner, LogToClean and CleanedTransactionMetadata).

The closed segments up to the first open transaction are read twice: the new ones to learn where each key was last written,
then all of them to leave out what is older. Offsets stay as they are. Kept as well are

    a tombstone, and the marker of a transaction of which nothing else is left: for delete.retention.ms after that was seen
    the last batch of each producer, without its records: what it wrote last is known by it
    the last batch that was looked at

Nothing here changes the log: what is written are files beside it, which the log then takes in the place of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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
from wirebroker.core.open_transactions import AbortedTransaction
from wirebroker.storage.folder import files
from wirebroker.storage.folder.names import CLEANED, LOG
from wirebroker.storage.folder.segment import Index, Segment, SegmentSettings

MOST_KEYS = 1_000_000
"""How many keys are looked at in one round; the next one goes on behind them. (log.cleaner.dedupe.buffer.size)"""
_WRITE = 1024 * 1024


class LastRecord(NamedTuple):
    """What is known of a producer by the last batch that it wrote: its offset, None if there is only a marker."""

    offset: int | None
    producer_epoch: int


class Task(NamedTuple):
    """A log that is to be compacted. Times are in ms."""

    segments: Sequence[Segment]
    """The closed ones, below what must not be touched."""
    first_dirty: int
    """Up to here it was compacted before."""
    aborted: Sequence[AbortedTransaction]
    last_records: Mapping[int, LastRecord]
    settings: SegmentSettings
    segment_bytes: int
    delete_retention: int
    now: int


class Made(NamedTuple):
    """A new segment, whose files are there as `.cleaned`, those that it replaces, and the aborted transactions in it."""

    segment: Segment
    replaces: Sequence[Segment]
    aborted: Sequence[AbortedTransaction]


class Cleaned(NamedTuple):
    """What came of a round, and up to where the log is compacted now."""

    made: Sequence[Made]
    end: int


class TransactionFilter:
    """Follows the transactions in a log: which batches were aborted, and of which anything was seen."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """Producers of whose current transaction a batch was seen."""
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions of which something is left, so that readers must know of them."""

    def discards(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether nothing in this batch is needed any more: it was aborted, or is the marker of what is gone."""
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            begun = self._aborted.pop()
            self._ongoing[begun.producer_id] = begun
        producer_id = header.producer_id
        if not header.is_control:
            if not header.is_transactional:
                return False
            self._seen.add(producer_id)
            aborted = self._ongoing.get(producer_id)
            # The marker that ended it may be gone, or lie before what is looked at.
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


def compact(task: Task) -> Cleaned:
    """Write what is left of these segments beside them. Raises OSError, and DamagedFile for what cannot be read."""
    latest, end = _last_offsets(task)
    made = []
    known = TransactionFilter(task.aborted)
    segments = [segment for segment in task.segments if segment.base_offset < end]
    for group in _groups(segments, task.segment_bytes):
        made.append(_clean(group, latest, end, known, task))
    return Cleaned(made, end)


def _last_offsets(task: Task) -> tuple[dict[bytes, int], int]:
    """Where each key of the new part was last written, and where that part ends."""
    latest: dict[bytes, int] = {}
    end = task.first_dirty
    known = TransactionFilter(task.aborted)
    for segment in task.segments:
        if segment is not task.segments[-1] and _following(task.segments, segment) <= task.first_dirty:
            continue
        if len(latest) >= MOST_KEYS:
            break
        for _, batch in segment.batches(0):
            header = read_header(batch)
            discarded = known.discards(header, batch)
            if header.is_control or discarded or header.last_offset < task.first_dirty:
                continue
            for record in iter_records(batch):
                offset = header.base_offset + record.offset_delta
                if record.key is not None and offset >= task.first_dirty:
                    latest[record.key] = offset
        end = _end(segment, end)
    return latest, end


def _following(segments: Sequence[Segment], segment: Segment) -> int:
    return segments[segments.index(segment) + 1].base_offset


def _end(segment: Segment, otherwise: int) -> int:
    """Behind the last batch of a segment; where it has none, what was the end before."""
    end = otherwise
    for _, batch in segment.batches(0):
        end = read_header(batch).last_offset + 1
    return end


def _groups(segments: Sequence[Segment], largest: int) -> Iterator[list[Segment]]:
    """Neighbours that fit into one segment together."""
    group: list[Segment] = []
    for segment in segments:
        size = sum(each.size for each in group) + segment.size
        if group and (size > largest or segment.base_offset - group[0].base_offset > 2**30):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _clean(
    group: Sequence[Segment], latest: Mapping[bytes, int], end: int, known: TransactionFilter, task: Task
) -> Made:
    """One new segment of these."""
    first = group[0]
    made = Segment(first.folder, first.base_offset, first.created, task.settings, Index())
    aborted_before = len(known.kept)
    path = made.path(LOG, CLEANED)
    path.unlink(missing_ok=True)
    with path.open("wb", buffering=_WRITE) as file:
        for segment in group:
            for _, batch in segment.batches(0):
                left = filtered(batch, latest, end, known, task)
                if left:
                    header = read_header(left)
                    file.write(left)
                    made.note(header.last_offset, header.size, header.max_timestamp)
    aborted = known.kept[aborted_before:]
    made.close(aborted, CLEANED)
    for written in made.paths(CLEANED):
        files.sync(written)
    return Made(made, group, aborted)


def filtered(
    batch: memoryview, latest: Mapping[bytes, int], end: int, known: TransactionFilter, task: Task
) -> memoryview | bytes:
    """What is left of a batch: itself, another one with fewer records or none, or nothing."""
    header = read_header(batch)
    unneeded = known.discards(header, batch)
    horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
    discards = unneeded and (not header.is_control or (horizon is not None and horizon <= task.now))
    holds_place = _is_last_of_producer(header, task.last_records) or header.last_offset + 1 == end
    if discards and not holds_place:
        return b""
    records = list(iter_records(batch))
    if discards:
        kept = []
    elif header.is_control:
        kept = records
    else:
        deletes = horizon is None or task.now < horizon
        kept = [record for record in records if _is_needed(record, header, latest, end, deletes)]
    if not kept:
        return _without_records(header) if holds_place else b""
    begins_horizon = horizon is None and (
        (unneeded and header.is_control) or any(record.value is None for record in kept if not header.is_control)
    )
    if len(kept) == len(records) and not begins_horizon:
        return batch
    return _with_records(header, kept, task.now + task.delete_retention if begins_horizon else horizon)


def _is_last_of_producer(header: BatchHeader, last_records: Mapping[int, LastRecord]) -> bool:
    last = last_records.get(header.producer_id)
    if last is None or header.producer_id < 0:
        return False
    if last.offset is not None:
        return header.last_offset == last.offset
    return header.is_control and header.producer_epoch == last.producer_epoch


def _is_needed(record: Record, header: BatchHeader, latest: Mapping[bytes, int], end: int, deletes: bool) -> bool:
    offset = header.base_offset + record.offset_delta
    if offset >= end:
        return True
    if record.key is None:
        return False  # a compacted topic takes none; it was one of another kind before
    return offset >= latest.get(record.key, -1) and (record.value is not None or deletes)


def _without_records(header: BatchHeader) -> bytes:
    """A batch that only holds its place (DefaultRecordBatch.writeEmptyHeader)."""
    attributes = header.attributes & ~(DELETE_HORIZON | 0x07)
    return seal(header._replace(attributes=attributes, base_timestamp=-1, records_count=0), b"")


def _with_records(header: BatchHeader, kept: Sequence[Record], horizon: int | None) -> bytes:
    """The batch with these records only; with a delete horizon that stands in the place of the base timestamp."""
    base = header.base_timestamp if horizon is None else horizon
    shift = header.base_timestamp - base
    body = bytearray()
    for record in kept:
        write_record(body, record._replace(timestamp_delta=record.timestamp_delta + shift))
    latest = header.base_timestamp + max(record.timestamp_delta for record in kept)
    made = header._replace(
        attributes=header.attributes | (DELETE_HORIZON if horizon is not None else 0),
        base_timestamp=base,
        max_timestamp=header.max_timestamp if header.is_log_append_time else latest,
        records_count=len(kept),
    )
    return seal(made, compress(header.compression, body) if header.compression else body)
