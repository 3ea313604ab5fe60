"""Stored batches and records as rows for the checks, from a running broker's partitions or from a segment's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkawire.batches import (
    DELETE_HORIZON,
    HEADER_SIZE,
    LEAST_OVERHEAD,
    BatchHeader,
    Record,
    crc_of,
    iter_records,
    may_be_compacted,
    read_header,
    read_marker,
)
from kafkawire.compression import TooLarge
from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer
from wirebroker.audit.checks import Bounds
from wirebroker.audit.content import UNFOLDED, content_hash, digest, head
from wirebroker.audit.findings import PREALLOCATED, BatchRow, Damage, RecordRow
from wirebroker.core.cluster import Topic

MAGIC = 2
MEMORY = "memory"
"""The segment name in the rows of a log that has no files."""


class Contents(NamedTuple):
    """The content of a partition in log order. `committed` and `aborted` are the numbers of transactions that have a batch in
    this partition."""

    bounds: Bounds
    """the partition's bounds; if a batch shows that it was compacted, `cleaned_to` is at least the end of this batch"""
    entries: list[BatchRow | Damage]
    records: list[RecordRow]
    committed: int
    aborted: int


class StoredPartition(NamedTuple):
    """A partition at one moment. The list of batches is complete and never changes."""

    topic: str
    partition: int
    bounds: Bounds
    batches: Sequence[memoryview]

    def read(self) -> Contents:
        """Reads the batches and records of the partition.

        Raises CodecMissing for a compressed batch whose codec is not installed, and TooLarge for a batch that decompresses to
        more than `content.UNFOLDED` bytes.
        """
        entries: list[BatchRow | Damage] = []
        found = _Records(self)
        position, cleaned_to = 0, self.bounds.cleaned_to
        for batch in self.batches:
            entry = read_batch(batch, self.topic, self.partition, MEMORY, position)
            entries.append(entry)
            cleaned_to = max(cleaned_to, compacted_to(entry, batch))
            if isinstance(entry, BatchRow) and entry.crc_stored == entry.crc_computed:
                try:
                    found.take(batch)
                except TooLarge:
                    raise
                except ProtocolError as damage:
                    reason = f"its checksum matches, but its records cannot be read: {damage}"
                    entries[-1] = Damage(self.topic, self.partition, "bad_batch", MEMORY, position, len(batch), reason)
            position += len(batch)
        bounds = self.bounds._replace(cleaned_to=cleaned_to)
        return Contents(bounds, entries, found.rows(), found.ended[True], found.ended[False])


def snapshot(topics: Iterable[Topic], expiration_ms: int, now: int) -> list[StoredPartition]:
    """Returns the partitions of these topics.

    The result holds only references to the batches, so another thread may read the batches later.
    """
    return [
        StoredPartition(
            topic.name, partition.index,
            Bounds(partition.log_start_offset, partition.log.cleaned_to, expiration_ms, topic.internal, now),
            list(partition.log.batches(partition.log_start_offset)),
        )
        for topic in topics
        for partition in topic.partitions
    ]  # fmt: skip


def compacted_to(entry: BatchRow | Damage, batch: memoryview) -> int:
    """If a batch shows that compaction removed some of its records, returns the end of the batch, else −1."""
    if isinstance(entry, Damage):
        return -1
    fewer = 0 <= entry.records <= entry.last_offset - entry.base_offset and entry.crc_stored == entry.crc_computed
    shown = entry.attributes & DELETE_HORIZON or (fewer and may_be_compacted(batch))
    return entry.last_offset + 1 if shown else -1


def scan(data: Buffer, topic: str, partition: int, segment: str) -> Iterator[BatchRow | Damage]:
    """Yields the batches in the bytes of a segment.

    Zeros up to a multiple of 1 MiB are preallocated space. All other bytes that are not a batch become a Damage. If the
    position of the next batch is known, the scan continues there.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        if not any(view[position : position + HEADER_SIZE]) and not any(view[position:]):
            if len(view) % PREALLOCATED:
                left = len(view) - position
                yield Damage(topic, partition, "torn_tail", segment, position, left, f"its last {left} bytes are zeros")
            return
        entry = read_batch(view[position:], topic, partition, segment, position)
        yield entry
        if isinstance(entry, Damage) and entry.bytes == len(view) - position:
            return
        position += entry.bytes


def read_batch(view: memoryview, topic: str, partition: int, segment: str, position: int) -> BatchRow | Damage:
    """Returns the batch at the beginning of these bytes."""

    def damage(kind: str, size: int, reason: str) -> Damage:
        torn = kind == "torn_tail"
        return Damage(topic, partition, "torn_tail" if torn else "bad_batch", segment, position, size, reason)

    if len(view) < HEADER_SIZE:
        return damage("torn_tail", len(view), f"it ends after {len(view)} bytes, inside its header")
    header = read_header(view)
    if header.batch_length < LEAST_OVERHEAD:
        return damage("bad_batch", len(view), f"its length is {header.batch_length}, expected at least {LEAST_OVERHEAD}")
    if header.size > len(view):
        return damage("torn_tail", len(view), f"its header announces {header.size} bytes, but only {len(view)} are there")
    if header.magic != MAGIC:
        return damage("bad_batch", header.size, f"its magic byte is {header.magic}, expected {MAGIC}")
    if header.size < HEADER_SIZE:
        return damage("bad_batch", header.size, f"its header announces {header.size} bytes, less than the size of the header")
    return _row(header, view[: header.size], topic, partition, segment, position)


def _row(header: BatchHeader, batch: memoryview, topic: str, partition: int, segment: str, position: int) -> BatchRow:
    return BatchRow(
        topic, partition, header.base_offset, header.last_offset, header.partition_leader_epoch, header.producer_id,
        header.producer_epoch, header.base_sequence, header.last_sequence, header.records_count, header.attributes,
        header.max_timestamp, header.crc, crc_of(batch), header.size, segment, position,
    )  # fmt: skip


class _Records:
    """Collects records. The records of a transaction are open until the transaction's marker comes."""

    def __init__(self, partition: StoredPartition) -> None:
        self._partition = partition
        self._rows: list[RecordRow] = []
        self._open: dict[int, list[int]] = {}
        """the positions of the records of each open transaction, by producer id"""
        self.ended = {True: 0, False: 0}
        """the numbers of committed and of aborted transactions"""

    def take(self, batch: memoryview) -> None:
        """Add the next batch. If this raises ProtocolError, the batch is not added."""
        header = read_header(batch)
        records = list(iter_records(batch, UNFOLDED))
        if header.is_control:
            for record in records:
                self._end(header.producer_id, record)
            return
        rows = [self._row(header, record) for record in records]
        if header.is_transactional:
            known = self._open.setdefault(header.producer_id, [])
            known += range(len(self._rows), len(self._rows) + len(rows))
        self._rows += rows

    def rows(self) -> list[RecordRow]:
        """Returns all records at or after the log start."""
        return [row for row in self._rows if row.offset >= self._partition.bounds.log_start]

    def _end(self, producer_id: int, record: Record) -> None:
        marker = read_marker(record)
        if marker is None or producer_id not in self._open:
            return
        self.ended[marker.commit] += 1
        for index in self._open.pop(producer_id):
            self._rows[index] = self._rows[index]._replace(transaction="committed" if marker.commit else "aborted")

    def _row(self, header: BatchHeader, record: Record) -> RecordRow:
        value_hash = digest(record.value)
        sequence = (header.base_sequence + record.offset_delta) % 2**31 if header.base_sequence >= 0 else -1
        appended = header.is_log_append_time
        return RecordRow(
            self._partition.topic, self._partition.partition, header.base_offset + record.offset_delta,
            header.max_timestamp if appended else header.base_timestamp + record.timestamp_delta,
            header.producer_id, header.producer_epoch, sequence, "open" if header.is_transactional else "none",
            record.key, value_hash, content_hash(record.key, value_hash, record.headers), head(record.value),
        )  # fmt: skip
