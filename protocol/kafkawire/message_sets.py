"""Message sets, the record data of Kafka before 0.11: magic 0, and magic 1 with timestamps.

    offset 8 · size 4 · CRC-32 4 | magic 1 · attributes 1 · timestamp 8 (magic 1) · key length 4 · key · value length 4 · value

The CRC covers the bytes after the bar. Message sets have no batches: each message is separate. Compressed messages are the
value of another message, the wrapper. The offset of a wrapper is the offset of the last message in it. The messages in it have
offsets that are relative to the first message (magic 1), or absolute (magic 0). Clients that use old versions of Produce and
Fetch still write and read message sets, and a broker converts them (Kafka's AbstractLegacyRecordBatch, LegacyRecord and
RecordsUtil).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from kafkawire.batches import (
    COMPRESSION_MASK,
    DECOMPRESSED_LIMIT,
    LEAST_OVERHEAD,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    Record,
    parse_records,
    read_header,
    record_bytes,
    seal,
    write_record,
)
from kafkawire.compression import LZ4, ZSTD, compress, decompress, with_old_checksum
from kafkawire.errors import ProtocolError

_ENTRY = struct.Struct(">qiIbb")
"""Offset, size, CRC, magic and attributes."""
_OFFSET_SIZE = struct.Struct(">qi")
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_CRC_START = 16
"""The first byte that the CRC covers: the magic byte."""
NO_TIMESTAMP = -1


class InvalidSet(ProtocolError):
    """Raised for a compressed set that Kafka refuses with INVALID_RECORD."""


class Unconvertible(ProtocolError):
    """Raised for a batch that no old client can read: its records are compressed with zstd."""


class LegacyRecord(NamedTuple):
    """One message. The offset of a message is absolute; its timestamp is in ms since the epoch, or −1."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> int:
        """The codec of the messages in a wrapper's value, 0 for a plain message."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Tells whether the timestamp is the time at which the broker appended the message."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)


def has_valid_crc(entry: memoryview) -> bool:
    """Tells whether the CRC of a whole entry (a message or a wrapper) matches."""
    (stored,) = struct.unpack_from(">I", entry, LOG_OVERHEAD)
    return bool(stored == crc32(entry[_CRC_START:]))


def read_message(entry: memoryview) -> LegacyRecord:
    """Returns one whole entry of magic 0 or 1. Raises ProtocolError."""
    try:
        offset, _, _, magic, attributes = _ENTRY.unpack_from(entry)
        pos, timestamp = _ENTRY.size, NO_TIMESTAMP
        if magic > 0:
            (timestamp,) = _INT64.unpack_from(entry, pos)
            pos += _INT64.size
        key, pos = _read_bytes(entry, pos)
        value, pos = _read_bytes(entry, pos)
    except struct.error as damage:
        raise ProtocolError("a message ends too early") from damage
    return LegacyRecord(offset, magic, attributes, timestamp, key, value)


def _read_bytes(entry: memoryview, pos: int) -> tuple[bytes | None, int]:
    (size,) = _INT32.unpack_from(entry, pos)
    pos += _INT32.size
    if size < 0:
        return None, pos
    if pos + size > len(entry):
        raise ProtocolError("a field runs past the end of its message")
    return bytes(entry[pos : pos + size]), pos + size


def messages_in(wrapper: LegacyRecord, limit: int = DECOMPRESSED_LIMIT) -> list[LegacyRecord]:
    """Returns the messages inside a wrapper, with absolute offsets. If the wrapper has the timestamp type LogAppendTime, the
    messages get its timestamp.

    Raises InvalidSet for a set that Kafka refuses, CorruptBatch for a damaged message inside, ProtocolError for damaged
    compression, and CodecMissing.
    """
    if wrapper.compression == ZSTD:
        raise InvalidSet(f"a wrapper of magic {wrapper.magic} cannot be compressed with zstd")
    if wrapper.value is None:
        raise InvalidSet("a compressed set has no value")
    found = [_inner(entry, wrapper) for entry in _inner_entries(_unfolded(wrapper, limit))]
    if not found:
        raise InvalidSet("a compressed set has no messages")
    if wrapper.magic == 0:
        return found
    last = found[-1].offset
    if wrapper.offset and wrapper.offset < last:
        raise InvalidSet(f"a wrapper's offset {wrapper.offset} is less than the last offset {last} inside")
    first = wrapper.offset - last if wrapper.offset else 0  # librdkafka once sent wrappers with offset 0
    return [each._replace(offset=first + each.offset) for each in found]


def _unfolded(wrapper: LegacyRecord, limit: int) -> memoryview:
    assert wrapper.value is not None
    return memoryview(decompress(wrapper.compression, wrapper.value, limit, any_checksum=wrapper.magic == 0))


def _inner_entries(data: memoryview) -> Iterator[memoryview]:
    """Yields the whole entries of a decompressed set, without a truncated entry at the end (DataLogInputStream)."""
    pos, end = 0, len(data)
    while end - pos >= LOG_OVERHEAD:
        _, size = _OFFSET_SIZE.unpack_from(data, pos)
        if size < LEAST_OVERHEAD:
            raise CorruptBatch(f"Record size {size} is less than the minimum record overhead ({LEAST_OVERHEAD})")
        if pos + LOG_OVERHEAD + size > end:
            return
        yield data[pos : pos + LOG_OVERHEAD + size]
        pos += LOG_OVERHEAD + size


def _inner(entry: memoryview, wrapper: LegacyRecord) -> LegacyRecord:
    message = read_message(entry)
    if message.magic != wrapper.magic:
        raise InvalidSet(f"a wrapper of magic {wrapper.magic} contains a message of magic {message.magic}")
    if message.compression:
        raise InvalidSet("a compressed message contains a compressed message")
    if not has_valid_crc(entry):
        raise CorruptBatch("Record is corrupt: the CRC of a message in a compressed set does not match")
    if wrapper.is_log_append_time:
        return message._replace(timestamp=wrapper.timestamp, attributes=message.attributes | LOG_APPEND_TIME)
    return message


# Conversion from message sets to batches


def as_batch(messages: Iterable[LegacyRecord], codec: int) -> bytes:
    """Returns a batch of magic 2 with base offset 0 and these messages, at least one. Raises CodecMissing."""
    body = bytearray()
    base = latest = NO_TIMESTAMP
    count, attributes = 0, codec
    for message in messages:
        if not count:
            base = latest = message.timestamp
            attributes |= LOG_APPEND_TIME if message.is_log_append_time else 0
        latest = max(latest, message.timestamp)
        write_record(body, Record(count, message.timestamp - base, message.key, message.value))
        count += 1
    header = BatchHeader(0, 0, -1, 2, 0, attributes, count - 1, base, latest, -1, -1, -1, count)
    return seal(header, compress(codec, body) if codec else body)


# Conversion from batches to message sets


def down_converted(batch: memoryview, magic: int, fetch_offset: int) -> bytes:
    """Returns the records of a batch as a message set of magic 0 or 1. For a control batch, returns an empty message set.

    Headers are lost. Records before `fetch_offset` are left out unless they are compressed (RecordsUtil.downConvert). Raises
    Unconvertible, CodecMissing, and ProtocolError for a damaged batch.
    """
    header = read_header(batch)
    if header.is_control:
        return b""
    if header.compression == ZSTD:
        raise Unconvertible("Down-conversion of zstandard-compressed batches is not supported")
    stamp = LOG_APPEND_TIME if magic > 0 and header.is_log_append_time else 0
    messages = [
        LegacyRecord(
            header.base_offset + record.offset_delta, magic, stamp,
            header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp_delta,
            record.key, record.value,
        )
        for record in parse_records(record_bytes(batch, header), header.records_count)
        if header.compression or header.base_offset + record.offset_delta >= fetch_offset
    ]  # fmt: skip
    return write_set(messages, header.compression)


def write_set(messages: list[LegacyRecord], codec: int = 0) -> bytes:
    """Returns the message set of these messages. With a codec, the set is one wrapper around all messages. Raises
    CodecMissing."""
    if not codec or not messages:
        return b"".join(_written(each) for each in messages)
    first, last = messages[0], messages[-1]
    base = first.offset if first.magic > 0 else 0
    folded = compress(codec, b"".join(_written(each._replace(offset=each.offset - base)) for each in messages))
    if codec == LZ4 and first.magic == 0:
        folded = with_old_checksum(folded)
    latest = max(each.timestamp for each in messages)
    return _written(LegacyRecord(last.offset, first.magic, first.attributes | codec, latest, None, folded))


def _written(message: LegacyRecord) -> bytes:
    body = bytearray((message.magic, message.attributes))
    if message.magic > 0:
        body += _INT64.pack(message.timestamp)
    for part in (message.key, message.value):
        body += _INT32.pack(-1 if part is None else len(part))
        body += part or b""
    size = len(body) + 4
    return _OFFSET_SIZE.pack(message.offset, size) + struct.pack(">I", crc32(body)) + body
