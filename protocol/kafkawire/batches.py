"""Record batches, version 2: the 61-byte header, the CRC, and the records.

    base offset 8 · length 4 · leader epoch 4 · magic 1 · CRC-32C 4 | attributes 2 · last offset delta 4 ·
    base timestamp 8 · max timestamp 8 · producer id 8 · producer epoch 2 · base sequence 4 · record count 4 | records

The CRC covers the bytes after the first bar, so a broker can write base offset and leader epoch into a batch without touching
the rest. To append a batch to a log, a broker parses only the batch's header; records are parsed on request.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kafkawire.checksums import crc32c
from kafkawire.compression import CodecMissing, Room, TooLarge, compress, decompress
from kafkawire.errors import ProtocolError
from kafkawire.primitives import LIKE_JAVA, Buffer
from kafkawire.varints import read_varint, write_varint

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
CRC_START: Final = 21
"""The first byte that the CRC covers."""
LENGTH_START: Final = 8
LOG_OVERHEAD: Final = 12
"""LENGTH_START is the position of the length field. The length does not include the first LOG_OVERHEAD bytes of a batch."""
_CRC_AT = 17
MAGIC_AT = 16
"""The position of the magic byte in a batch, and also in an entry of a message set (`message_sets`)."""
OLD_MAGICS = (0, 1)
"""The values of the magic byte in message sets."""
_LENGTH = struct.Struct(">i")
_SPAN = struct.Struct(">qi4xB6xi")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35
LEAST_OVERHEAD = 14
"""The size in bytes of the shortest record of any format. Kafka refuses a batch whose length field has a smaller value."""
SEQUENCES = 2**31
"""Sequence numbers are counted modulo this number, 2³¹."""
COMPRESSION_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
DEFINED_ATTRIBUTES = 0x7F
DECOMPRESSED_LIMIT = 128 * 1024 * 1024
"""The largest size of a decompressed batch in bytes, unless the caller gives another limit."""


_new: Any = tuple.__new__
"""Creates a named tuple without a call of its constructor. The constructor would take longer than the reading of the
numbers."""


class CorruptBatch(ProtocolError):
    """Raised if record data cannot be a sequence of batches. The message is Kafka's."""


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in the order of the wire. Times are ms since the epoch; −1 stands for "none"."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def compression(self) -> int:
        """The codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Tells whether the timestamp type is LogAppendTime. If so, the max timestamp is the time of the append, and all
        records have this timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Tells whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Tells whether the batch holds a marker and no data."""
        return bool(self.attributes & CONTROL)

    @property
    def last_sequence(self) -> int:
        """The last record's sequence, modulo 2³¹, or −1 if the batch has no sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES

    @property
    def last_offset(self) -> int:
        """The last record's offset."""
        return self.base_offset + self.last_offset_delta


class Record(NamedTuple):
    """One record. The offset and the timestamp of a record are relative to the offset and the timestamp of its batch."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def read_header(buffer: Buffer, pos: int = 0) -> BatchHeader:
    """Returns the header at `pos`. Raises ProtocolError if there are not 61 bytes."""
    try:
        return BatchHeader._make(HEADER.unpack_from(buffer, pos))
    except struct.error as short:
        raise ProtocolError(f"a batch header has {HEADER_SIZE} bytes, but only {len(buffer) - pos} are left") from short


def first_header(records: Buffer | None) -> BatchHeader | None:
    """Returns the header of the first batch of record data, or None for too few bytes or a message set."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] in OLD_MAGICS:
        return None
    return read_header(records)


def transactional_header(records: Buffer | None) -> BatchHeader | None:
    """Returns the header of the first batch of record data if this batch is transactional, else None."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    header = read_header(records)
    return header if header.magic == 2 and header.is_transactional else None


def iter_batches(buffer: Buffer) -> Iterator[memoryview]:
    """Yields each whole batch in record data. A truncated last batch is left out, as in Kafka. Raises CorruptBatch."""
    view = memoryview(buffer)
    pos, end = 0, len(view)
    while (size := next_batch_size(view, pos)) is not None and pos + size <= end:
        yield view[pos : pos + size]
        pos += size


def next_batch_size(view: memoryview, pos: int) -> int | None:
    """Returns the size of the batch at `pos`, or None if too few bytes follow `pos`. Raises CorruptBatch
    (ByteBufferLogInputStream)."""
    left = len(view) - pos
    if left < LOG_OVERHEAD:
        return None
    (length,) = _LENGTH.unpack_from(view, pos + LENGTH_START)
    if length < LEAST_OVERHEAD:
        raise CorruptBatch(f"Record size {length} is less than the minimum record overhead ({LEAST_OVERHEAD})")
    if left <= 16:
        return None
    magic = view[pos + 16]
    if magic > 2:
        raise CorruptBatch(f"Invalid magic found in record: {magic if magic < 128 else magic - 256}")
    return int(length) + LOG_OVERHEAD


class BatchSpan(NamedTuple):
    """A batch in record data: the offsets of its first and last record, the position of its first byte, and the position of the
    byte after it."""

    base: int
    last: int
    start: int
    stop: int


def batch_spans(view: memoryview, enough: int) -> list[BatchSpan]:
    """Returns the spans of the whole batches in record data, up to the first batch whose base offset is `enough` or larger.
    Raises CorruptBatch."""
    spans: list[BatchSpan] = []
    pos, end = 0, len(view)
    while end - pos >= HEADER_SIZE:
        base, length, magic, delta = _SPAN.unpack_from(view, pos)
        if length < LEAST_OVERHEAD or magic > 2:
            next_batch_size(view, pos)
        after = pos + LOG_OVERHEAD + length
        if after > end:
            break
        spans.append(_new(BatchSpan, (base, base + delta, pos, after)))
        if base >= enough:
            break
        pos = after
    return spans


def crc_of(batch: Buffer) -> int:
    """Returns the CRC-32C over a batch, from its attributes on."""
    return crc32c(memoryview(batch)[CRC_START:])


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    base_timestamp: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: int = 0,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Returns a batch of these records, at least one. A record's timestamp is the base timestamp plus the record's delta, in
    ms."""
    body = bytearray()
    count, last_delta, max_delta = 0, 0, None
    for record in records:
        write_record(body, record)
        count += 1
        last_delta = record.offset_delta
        max_delta = record.timestamp_delta if max_delta is None else max(max_delta, record.timestamp_delta)
    if max_delta is None:
        raise ValueError("a batch has at least one record")
    attributes = compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    return seal(
        BatchHeader(
            base_offset, 0, leader_epoch, 2, 0, attributes, last_delta, base_timestamp, base_timestamp + max_delta,
            producer_id, producer_epoch, base_sequence, count,
        ),
        compress(compression, body) if compression else body,
    )  # fmt: skip


def seal(header: BatchHeader, body: Buffer) -> bytes:
    """Returns a batch with this header and body, and with the correct length and CRC. `body` has the records, compressed if the
    header says so."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(body)
    made = bytearray(HEADER.pack(*header))
    _LENGTH.pack_into(made, LENGTH_START, length)
    made += body
    _CRC.pack_into(made, _CRC_AT, crc_of(made))
    return bytes(made)


def patch_timestamps(batch: bytearray, max_timestamp: int, *, append_time: bool) -> None:
    """Write another max timestamp and timestamp type into a batch, and correct its CRC (Kafka's setMaxTimestamp).

    Bits of the attributes that no version defines are cleared, as Kafka clears them when it writes a header.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    kept = attributes & DEFINED_ATTRIBUTES & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(batch, CRC_START, kept | (LOG_APPEND_TIME if append_time else 0))
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch))


def write_record(out: bytearray, record: Record) -> None:
    """Append one record with its length prefix."""
    body = bytearray(b"\0")
    write_varint(body, record.timestamp_delta)
    write_varint(body, record.offset_delta)
    for part in (record.key, record.value):
        _write_bytes(body, part)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value


def iter_records(batch: Buffer, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
    """Yields the records of one whole batch, decompressed up to `limit` bytes. Raises ProtocolError."""
    header = read_header(batch)
    body = record_bytes(batch, header, limit)
    return parse_records(body, header.records_count)


def may_be_compacted(batch: Buffer, limit: int = DECOMPRESSED_LIMIT) -> bool:
    """Tells whether compaction can be the reason why a batch with a matching CRC has fewer records than offsets.

    No broker accepts such a batch from a producer, so either the cleaner has written the batch, or the header has a wrong
    count. In a batch that the cleaner has written, every record has a key, and the offsets rise. Returns True if this process
    cannot decompress the records.
    """
    header = read_header(batch)
    try:
        records = list(iter_records(batch, limit))
    except (CodecMissing, TooLarge):
        return True
    except ProtocolError:
        return False
    deltas = [each.offset_delta for each in records]
    within = all(0 <= each <= header.last_offset_delta for each in deltas)
    rising = all(one < other for one, other in pairwise(deltas))
    return within and rising and all(each.key is not None for each in records)


def record_bytes(batch: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT, room: Room | None = None) -> memoryview:
    """Returns the batch's records as bytes, decompressed up to `limit` bytes. For `room` see `decompress`. Raises
    ProtocolError."""
    body = memoryview(batch)[HEADER_SIZE : header.size]
    return memoryview(decompress(header.compression, body, limit, room)) if header.compression else body


def parse_records(body: memoryview, count: int) -> Iterator[Record]:
    """Yields `count` consecutive records. Raises ProtocolError if the records do not fill `body` exactly."""
    pos, end = 0, len(body)
    try:
        for _ in range(count):
            size, pos = read_varint(body, pos)
            stop = pos + size
            if size < 0 or stop > end:
                raise ProtocolError(f"a record announces {size} bytes, but only {end - pos} are left")
            yield _parse_record(body[pos:stop])
            pos = stop
    except IndexError as damage:
        raise ProtocolError("a record runs past the end of its batch") from damage
    if pos != end:
        raise ProtocolError(f"{end - pos} bytes are left after the last record")


def _parse_record(view: memoryview) -> Record:
    timestamp_delta, pos = read_varint(view, 1)  # skips the record's attributes, which have no defined bits
    offset_delta, pos = read_varint(view, pos)
    key, pos = _read_bytes(view, pos)
    value, pos = _read_bytes(view, pos)
    count, pos = read_varint(view, pos)
    if not 0 <= count <= len(view) - pos:
        raise ProtocolError(f"a record announces {count} headers")
    headers = []
    for _ in range(count):
        name, pos = _read_bytes(view, pos)
        content, pos = _read_bytes(view, pos)
        if name is None:
            raise ProtocolError("a record header without a name")
        headers.append((name.decode(errors=LIKE_JAVA), content))
    if pos != len(view):
        raise ProtocolError(f"{len(view) - pos} bytes are left after the last field of a record")
    return Record(offset_delta, timestamp_delta, key, value, tuple(headers))


def _read_bytes(view: memoryview, pos: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(view, pos)
    if size < 0:
        return None, pos
    if pos + size > len(view):
        raise ProtocolError("a field runs past the end of its record")
    return bytes(view[pos : pos + size]), pos + size


class Marker(NamedTuple):
    """The content of a control batch: the transaction was committed or aborted."""

    commit: bool
    coordinator_epoch: int


def end_txn_marker(commit: bool, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> bytes:
    """Returns the control batch that ends a transaction on a partition."""
    record = Record(0, 0, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch))
    return build_batch(
        [record], base_timestamp=timestamp, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True,
        control=True,
    )  # fmt: skip


def read_marker(record: Record) -> Marker | None:
    """Returns the marker in a control record, None for a control record of another kind. Raises ProtocolError."""
    try:
        _, kind = struct.unpack_from(">hh", record.key or b"")
        if kind not in (0, 1):
            return None
        _, coordinator_epoch = struct.unpack_from(">hi", record.value or b"")
    except struct.error as damage:
        raise ProtocolError(f"a control record cannot be read: {damage}") from damage
    return Marker(kind == 1, coordinator_epoch)
