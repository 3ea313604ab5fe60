"""The records inside batches as rows, decompressed and hashed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kafkawire.batches import CONTROL, SEQUENCES, Record, iter_records, read_header
from kafkawire.compression import CodecMissing, TooLarge
from kafkawire.errors import ProtocolError
from wirebroker.audit.content import UNFOLDED, content_hash, digest, head
from wirebroker_audit.scan import Chunk

ROWS = 20_000
"""Records in one Arrow batch."""

RECORDS = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()), pa.field("producer_id", pa.int64()), pa.field("producer_epoch", pa.int16()),
        pa.field("sequence", pa.int32()), pa.field("batch_offset", pa.int64()), pa.field("key", pa.binary()),
        pa.field("value_hash", pa.string()), pa.field("content", pa.string()), pa.field("value_head", pa.string()),
        pa.field("segment", pa.string()), pa.field("position", pa.int64()), pa.field("problem", pa.string()),
        pa.field("detail", pa.string()),
    ]
)  # fmt: skip
"""`RecordRow` without the outcome of its transaction, and the record's batch. A batch whose records cannot be read has one row
with a `problem`."""


def record_rows(chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
    """The records of every sound batch of data, and a row for each part that cannot be read."""
    rows: list[dict[str, Any]] = []
    for chunk in chunks:
        rows += _not_read(chunk)
        for batch in _sound(chunk):
            rows += _of_batch(chunk, batch)
            if len(rows) >= ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema=RECORDS)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=RECORDS)


def _not_read(chunk: Chunk) -> list[dict[str, Any]]:
    if chunk.begin >= 0:
        return []
    said = chunk.rows.select(["topic", "partition", "segment", "position", "problem", "detail"]).to_pylist()
    return [row for row in said if row["problem"] in ("unreadable", "deleted")]


_NEEDED = ("topic", "partition", "base_offset", "bytes", "attributes", "segment", "position", "problem")


def _sound(chunk: Chunk) -> list[dict[str, Any]]:
    if chunk.begin < 0:
        return []
    rows = chunk.rows.select(list(_NEEDED)).to_pylist()
    return [row for row in rows if row["problem"] in (None, "offset_regression") and not row["attributes"] & CONTROL]


def _of_batch(chunk: Chunk, batch: dict[str, Any]) -> list[dict[str, Any]]:
    at = chunk.places[batch["position"]] if chunk.places else batch["position"] - chunk.begin
    view = chunk.view[at : at + batch["bytes"]]
    header = read_header(view)
    common = {
        "topic": batch["topic"], "partition": batch["partition"], "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch, "batch_offset": header.base_offset, "segment": batch["segment"],
        "position": batch["position"],
    }  # fmt: skip
    try:
        records = list(iter_records(view, UNFOLDED))
    except (CodecMissing, TooLarge) as beyond:
        return [common | {"problem": "unreadable", "detail": f"{batch['segment']} at {batch['position']}: {beyond}"}]
    except ProtocolError as damage:
        return [common | {"problem": "bad_batch", "detail": f"its checksum matches, but its records cannot be read: {damage}"}]
    return [
        common
        | _content(each)
        | {
            "offset": header.base_offset + each.offset_delta,
            "timestamp": header.max_timestamp if header.is_log_append_time else header.base_timestamp + each.timestamp_delta,
            "sequence": (header.base_sequence + each.offset_delta) % SEQUENCES if header.base_sequence >= 0 else -1,
        }
        for each in records
    ]


def _content(record: Record) -> dict[str, Any]:
    value_hash = digest(record.value)
    return {
        "key": record.key, "value_hash": value_hash, "value_head": head(record.value),
        "content": content_hash(record.key, value_hash, record.headers),
    }  # fmt: skip
