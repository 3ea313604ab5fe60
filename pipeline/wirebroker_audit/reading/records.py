"""The records inside batches as rows, decompressed and hashed. No Python object is made for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkawire.batches import CONTROL, SEQUENCES, BatchHeader, Record, iter_records, read_header
from kafkawire.compression import CodecMissing, TooLarge
from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer
from wirebroker.audit.content import SHOWN, UNFOLDED, content_hash, digest
from wirebroker_audit.reading.linker import Array
from wirebroker_audit.reading.scan import Chunk, is_intact
from wirebroker_audit.reading.singles import Singles, find_singles

ROWS = 20_000
"""The number of records in one Arrow batch."""

RECORDS = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()), pa.field("producer_id", pa.int64()), pa.field("producer_epoch", pa.int16()),
        pa.field("sequence", pa.int32()), pa.field("batch_offset", pa.int64()), pa.field("key", pa.binary()),
        pa.field("value_hash", pa.string()), pa.field("content", pa.string()), pa.field("value_head", pa.binary()),
        pa.field("segment", pa.string()), pa.field("position", pa.int64()), pa.field("problem", pa.string()),
        pa.field("detail", pa.string()),
    ]
)  # fmt: skip
"""The fields of `RecordRow`, except the transaction's outcome, and the fields of the record's batch. A batch whose records
cannot be read has one row with a `problem`. `content` may be null if the record has no headers; see `contents.content`."""


def record_rows(chunks: Iterable[Chunk], *, contents: bool = True) -> Iterator[pa.RecordBatch]:
    """Yields the records of every sound batch of data, and a row for each part that cannot be read. Without `contents`, only
    records with headers have a `content`."""
    rows = _Rows(contents)
    for chunk in chunks:
        if chunk.begin < 0:
            if unread := unread_in(chunk):
                yield pa.RecordBatch.from_pylist(unread, schema=RECORDS)
            continue
        sound = _sound(chunk)
        places = _places(chunk, sound)
        singles = find_singles(chunk.view, places)
        for begin in range(0, len(singles.which), ROWS):
            yield _of_singles(chunk.view, sound, singles.between(begin, begin + ROWS), contents)
        others = np.delete(np.arange(len(places)), singles.which)
        for at, batch in zip(places[others].tolist(), _batches(sound.take(pa.array(others))), strict=True):
            problem = rows.take(batch, chunk.view[at : at + batch.bytes])
            if problem is not None:
                yield pa.RecordBatch.from_pylist([problem], schema=RECORDS)
            if len(rows) >= ROWS:
                yield rows.made()
                rows = _Rows(contents)
    if len(rows):
        yield rows.made()


def unread_in(chunk: Chunk) -> list[dict[str, Any]]:
    """Takes a chunk without batches, and returns a row for each part that could not be read."""
    said = chunk.rows.select(["topic", "partition", "segment", "position", "problem", "detail"]).to_pylist()
    return [row for row in said if row["problem"] in ("unreadable", "deleted")]


def sound_batches(chunk: Chunk) -> Iterator[tuple[Batch, memoryview]]:
    """Yields the batches of data that the scan found sound, with their bytes."""
    sound = _sound(chunk)
    for at, batch in zip(_places(chunk, sound).tolist(), _batches(sound), strict=True):
        yield batch, chunk.view[at : at + batch.bytes]


class Batch(NamedTuple):
    """The place of a batch in its segment, and its size."""

    topic: str
    partition: int
    segment: str
    position: int
    bytes: int


def _sound(chunk: Chunk) -> pa.RecordBatch:
    """Returns the batches of data that the scan found sound."""
    is_data = chunk.rows.column("attributes").to_numpy() & CONTROL == 0
    return chunk.rows.select(list(Batch._fields)).filter(pc.and_(is_intact(chunk.rows), pa.array(is_data)))


def _batches(rows: pa.RecordBatch) -> Iterator[Batch]:
    return map(Batch._make, zip(*(rows.column(name).to_pylist() for name in Batch._fields), strict=True))


def _places(chunk: Chunk, rows: pa.RecordBatch) -> Array:
    """Returns the positions of these batches in the chunk's view."""
    positions = rows.column("position").to_numpy()
    if chunk.places is None:
        result: Array = positions - chunk.begin
        return result
    return np.array([chunk.places[position] for position in positions.tolist()], np.int64)


def _of_singles(view: memoryview, batches: pa.RecordBatch, singles: Singles, contents: bool) -> pa.RecordBatch:
    headers, which = singles.headers, pa.array(singles.which)
    keys, (value, size) = cut(view, *singles.key), singles.value
    hashes = [digest(each) for each in singles.slices(view, singles.value)]
    base, sequence = headers["base_offset"].astype(np.int64), headers["base_sequence"].astype(np.int64)
    columns = {
        **{name: batches.column(name).take(which) for name in ("topic", "partition", "segment", "position")},
        **{name: headers[name].astype(np.int64) for name in ("producer_id", "producer_epoch")},
        "offset": base + singles.offset_delta, "timestamp": singles.timestamps(), "batch_offset": base,
        "sequence": _sequences(sequence, singles.offset_delta), "key": keys, "value_hash": hashes,
        "value_head": cut(view, value, np.minimum(size, BEGINNING)),
    }  # fmt: skip
    if contents:
        columns["content"] = [content_hash(*each) for each in zip(keys.to_pylist(), hashes, strict=True)]
    nulls = pa.nulls(len(which), pa.string())
    return pa.RecordBatch.from_arrays([pa.array(columns.get(field.name, nulls)).cast(field.type) for field in RECORDS],
                                      schema=RECORDS)  # fmt: skip


def cut(view: memoryview, begin: Array, size: Array) -> pa.Array:
    """Returns these parts of the view as binary values; a part with a negative size becomes null. Arrow copies the parts, so no
    Python object is made for each part."""
    end = begin + np.maximum(size, 0)
    if not len(begin) or (begin[1:] < end[:-1]).any():
        parts = zip(begin.tolist(), end.tolist(), size.tolist(), strict=True)
        return pa.array([None if length < 0 else bytes(view[at:to]) for at, to, length in parts], pa.binary())
    bounds = np.append(np.stack([begin, end], 1).ravel(), end[-1])  # every second value is a gap between two parts
    buffers = [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(view)]
    whole = pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)
    found = whole.take(pa.array(np.arange(0, len(bounds) - 1, 2))).cast(pa.binary())
    return pc.if_else(pa.array(size >= 0), found, None) if (size < 0).any() else found


def _sequences(base: Array, delta: Array) -> Array:
    """Returns the sequence of each record, −1 if its batch has no producer."""
    result: Array = np.where(base >= 0, (base + delta) % SEQUENCES, -1)
    return result


BEGINNING = SHOWN * 4 + 1
"""`contents.head` needs this many bytes to show a value and to tell whether there is more."""


def beginning(value: Buffer | None) -> bytes | None:
    return None if value is None else bytes(value[:BEGINNING])


class _Rows:
    """Records, column by column. Values are kept as hashes."""

    def __init__(self, contents: bool) -> None:
        self._contents = contents
        self._batches: list[Batch] = []
        self._headers: list[BatchHeader] = []
        self._counts: list[int] = []
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("delta", "timestamp_delta", "key", "value_hash", "content", "value_head")
        }

    def __len__(self) -> int:
        return len(self._columns["delta"])

    def take(self, batch: Batch, view: memoryview) -> dict[str, Any] | None:
        """Adds the records of a batch, or one row with a problem if they cannot be read."""
        header = read_header(view)
        try:
            records = list(iter_records(view, UNFOLDED))
        except (CodecMissing, ProtocolError) as damage:
            return unread(batch, header, damage)
        self._batches.append(batch)
        self._headers.append(header)
        self._counts.append(len(records))
        self._add(records)
        return None

    def _add(self, records: list[Record]) -> None:
        column = self._columns
        column["delta"] += [each.offset_delta for each in records]
        column["timestamp_delta"] += [each.timestamp_delta for each in records]
        column["key"] += [each.key for each in records]
        hashes = [digest(each.value) for each in records]
        column["value_hash"] += hashes
        column["content"] += [
            content_hash(each.key, value_hash, each.headers) if self._contents or each.headers else None
            for each, value_hash in zip(records, hashes, strict=True)
        ]
        column["value_head"] += [beginning(each.value) for each in records]

    def made(self) -> pa.RecordBatch:
        """Returns all records that were added."""
        batch_of = np.repeat(np.arange(len(self._counts)), self._counts)
        base, base_sequence, base_timestamp, max_timestamp = (
            np.array([getattr(each, name) for each in self._headers], np.int64)[batch_of]
            for name in ("base_offset", "base_sequence", "base_timestamp", "max_timestamp")
        )
        appended = np.array([each.is_log_append_time for each in self._headers], bool)[batch_of]
        delta = np.array(self._columns["delta"], np.int64)
        timestamp = base_timestamp + np.array(self._columns["timestamp_delta"], np.int64)
        computed = {
            "offset": base + delta, "timestamp": np.where(appended, max_timestamp, timestamp), "batch_offset": base,
            "sequence": _sequences(base_sequence, delta),
        }  # fmt: skip
        repeated = {name: [getattr(each, name) for each in self._batches] for name in Batch._fields} | {
            name: [getattr(each, name) for each in self._headers] for name in ("producer_id", "producer_epoch")
        }
        columns = []
        for field in RECORDS:
            if field.name in computed:
                columns.append(pa.array(computed[field.name]).cast(field.type))
            elif field.name in repeated:
                columns.append(pa.array(repeated[field.name], field.type).take(pa.array(batch_of)))
            elif field.name in self._columns:
                columns.append(pa.array(self._columns[field.name], field.type))
            else:
                columns.append(pa.nulls(len(delta), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def unread(batch: Batch, header: BatchHeader, damage: CodecMissing | ProtocolError) -> dict[str, Any]:
    """Returns a row about a batch whose records cannot be read."""
    if isinstance(damage, CodecMissing | TooLarge):
        problem, detail = "unreadable", f"{batch.segment} at {batch.position}: {damage}"
    else:
        problem, detail = "bad_batch", f"its checksum matches, but its records cannot be read: {damage}"
    return {
        "topic": batch.topic, "partition": batch.partition, "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch, "batch_offset": header.base_offset, "segment": batch.segment,
        "position": batch.position, "problem": problem, "detail": detail,
    }  # fmt: skip
