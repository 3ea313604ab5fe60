"""An *identity* is what an input and its outputs in a pipeline have in common: a key, a header, or a field of a JSON value. No
Spark here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa

from kafkawire.batches import BatchHeader, Record, iter_records, read_header
from kafkawire.compression import CodecMissing
from kafkawire.errors import ProtocolError
from wirebroker.audit.content import UNFOLDED
from wirebroker_audit.reading.records import ROWS, Batch, sound_batches, unread, unread_in
from wirebroker_audit.reading.scan import Chunk

IDENTITIES = pa.schema(
    [
        pa.field("pipeline", pa.int32()), pa.field("side", pa.int32()), pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()), pa.field("offset", pa.int64()), pa.field("timestamp", pa.int64()),
        pa.field("segment", pa.string()), pa.field("position", pa.int64()),
        pa.field("id", pa.binary()), pa.field("part", pa.binary()), pa.field("key", pa.binary()),
        pa.field("may_drop", pa.bool_()), pa.field("problem", pa.string()), pa.field("detail", pa.string()),
    ]
)  # fmt: skip
"""The place of a record, and its identity as an input or an output of a pipeline. `part` distinguishes records with the same
`id`. `may_drop` says whether the pipeline may leave the record out. A batch whose records cannot be read has one row with a
`problem`."""
_STEP = re.compile(r"\.([^.\[\]'\"]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_SCHEMA_ID = 5
"""A schema registry's serializer writes this many bytes before the value: a zero and the id of the schema."""


class BadPart(ValueError):
    """Raised if a text does not name a part of a record. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a record: `key`, `header:NAME`, `value:JSONPATH`, `value` or `timestamp`."""

    kind: str
    name: str = ""
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def of(self, record: Record, timestamp: int) -> bytes | None:
        """Returns the part of this record, None if the record does not have it. A whole value is hashed."""
        if self.kind == "key":
            return record.key
        if self.kind == "timestamp":
            return str(timestamp).encode()
        if self.kind == "header":  # the last header of the name counts, as in Kafka's Headers.lastHeader
            return next((content for name, content in reversed(record.headers) if name == self.name), None)
        if record.value is None:
            return None
        return _at(record.value, self.path) if self.path else sha256(record.value).digest()


def part_from(text: str) -> Part:
    """Returns the part that the text names. Raises BadPart."""
    kind, colon, name = text.partition(":")
    if kind == "header" and name:
        return Part(kind, name)
    if kind == "value" and colon:
        return Part(kind, name, _path(name))
    if text in ("key", "value", "timestamp"):
        return Part(text)
    raise BadPart(f"{text!r} is not known; expected key, header:NAME or value:JSONPATH such as value:$.order.id")


def _path(text: str) -> tuple[str | int, ...]:
    """Returns the steps of a path to one value, such as `$.lines[0]['order id']`."""
    steps: list[str | int] = []
    at = 1
    while (step := _STEP.match(text, at)) is not None:
        field, index, *quoted = step.groups()
        steps.append(int(index) if index is not None else next(each for each in (field, *quoted) if each is not None))
        at = step.end()
    if not text.startswith("$") or at != len(text) or not steps or "*" in steps:
        raise BadPart(f"{text!r} is not the path of one value; write it like $.order.id or $.lines[0]['order id']")
    return tuple(steps)


def _at(value: bytes, path: tuple[str | int, ...]) -> bytes | None:
    """Returns the text of the field at this path in a JSON value, None if the field is missing or null."""
    try:
        found = json.loads(value[_SCHEMA_ID:] if value[:1] == b"\0" else value, parse_int=_Number, parse_float=_Number)
        for step in path:
            found = found[step]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


class _Number(str):
    """A number as it is written: 17 is not 17.0, and no digit of a long number is lost."""

    __slots__ = ()


class Condition(NamedTuple):
    """A condition that a record meets if this part of the record has this text."""

    part: Part
    text: bytes

    def __str__(self) -> str:
        return f"{self.part}={self.text.decode(errors='replace')}"

    def holds(self, record: Record, timestamp: int) -> bool:
        """Tells whether the record meets the condition."""
        return self.part.of(record, timestamp) == self.text


class Wanted(NamedTuple):
    """Says which parts of a topic's records are read, for one side (inputs or outputs) of a pipeline."""

    pipeline: int
    side: int
    id: Part
    part: Part | None = None
    key: bool = False
    """whether to read the record's key, too"""
    may_drop: Condition | None = None


def identity_rows(chunks: Iterable[Chunk], wanted: Mapping[str, Sequence[Wanted]]) -> Iterator[pa.RecordBatch]:
    """Yields the identities of the records in every sound batch of data; `wanted` has the topics, and the parts of their
    records that are read."""
    rows: list[tuple[Any, ...]] = []
    for chunk in chunks:
        if chunk.begin < 0:
            rows += map(_problem, unread_in(chunk))
            continue
        for batch, view in sound_batches(chunk):
            header = read_header(view)
            try:
                records = list(iter_records(view, UNFOLDED))
                for each in wanted[batch.topic]:
                    rows += _identities(batch, header, records, each)
            except (CodecMissing, ProtocolError) as damage:
                rows.append(_problem(unread(batch, header, damage)))
            if len(rows) >= ROWS:
                yield _made(rows)
                rows.clear()
    if rows:
        yield _made(rows)


def _identities(batch: Batch, header: BatchHeader, records: Iterable[Record], wanted: Wanted) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a batch's records, in the order of `IDENTITIES`."""
    part, condition, appended = wanted.part, wanted.may_drop, header.is_log_append_time
    for each in records:
        at = header.max_timestamp if appended else header.base_timestamp + each.timestamp_delta
        yield (
            wanted.pipeline, wanted.side, batch.topic, batch.partition, header.base_offset + each.offset_delta, at,
            batch.segment, batch.position,
            wanted.id.of(each, at), part.of(each, at) if part is not None else None, each.key if wanted.key else None,
            condition is not None and condition.holds(each, at), None, None,
        )  # fmt: skip


def _problem(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in IDENTITIES.names)


def _made(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), IDENTITIES, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=IDENTITIES)
