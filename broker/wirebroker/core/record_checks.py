"""What Kafka checks of a client's record data before it looks at the sequence.

In Kafka's order: one batch of magic 2 (ProduceRequest.validateRecords), base offset, size and CRC (UnifiedLog), the
counts and every record (LogValidator), the segment's size. All of it comes before the validator, so a retry that is
damaged is an error and no duplicate. `full` looks at the records as Kafka does; otherwise the batch header is trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from crc32c import crc32c

from kafkawire.batches import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    Record,
    next_batch_size,
    parse_records,
    read_header,
    record_bytes,
    seal,
    set_max_timestamp,
    stamp_append_time,
    write_record,
)
from kafkawire.compression import NAMES, ZSTD, CodecMissing, compress
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.primitives import Buffer
from kafkawire.record_walk import Walked, offset_deltas_in_order, walk_records
from wirebroker.core.configs import TopicConfigs

SHOWN_ERRORS = 3
OLDEST_VERSION_OF_ZSTD = 7
_ATTRIBUTES = struct.Struct(">h")
_new: Any = tuple.__new__
"""Makes a NamedTuple of a tuple in half the time that its class takes."""


class RecordPolicy(NamedTuple):
    """What a topic's configuration asks of records. Sizes in bytes, times in ms."""

    topic: str = ""
    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    compacted: bool = False
    append_time: bool = False
    before_max_ms: int = 2**63 - 1
    after_max_ms: int = 3_600_000
    compression: str = "producer"
    level: int | None = None

    @classmethod
    def from_configs(cls, topic: str, configs: TopicConfigs) -> RecordPolicy:
        """The policy that these settings make."""
        compression = configs.text("compression.type")
        internal = configs.value("internal.segment.bytes")  # smaller segments than Kafka 4 lets users have, for tests
        has_level = compression in ("gzip", "lz4", "zstd")
        return cls(
            topic,
            configs.integer("max.message.bytes"),
            internal if isinstance(internal, int) else configs.integer("segment.bytes"),
            configs.integer("segment.ms"),
            "compact" in configs.text("cleanup.policy"),
            configs.text("message.timestamp.type") == "LogAppendTime",
            configs.integer("message.timestamp.before.max.ms"),
            configs.integer("message.timestamp.after.max.ms"),
            compression,
            configs.integer(f"compression.{compression}.level") if has_level else None,
        )


class Checked(NamedTuple):
    """A batch that is in order as far as its records go, as it will be stored."""

    header: BatchHeader
    batch: Buffer
    max_timestamp: int
    log_append_time: int
    """ms since the epoch on topics with LogAppendTime, else −1"""
    rewritten: bool


class RecordReject(NamedTuple):
    """Record data that is refused. `log_start_known` says whether the answer carries the log start offset."""

    code: int
    rule: str
    message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    log_start_known: bool = False
    header: BatchHeader | None = None


def check(
    records: memoryview | None, policy: RecordPolicy, now: int, produce_version: int, full: bool
) -> Checked | RecordReject:
    """Check one partition's record data at the time `now`, in ms since the epoch."""
    size = len(records) if records is not None else 0
    if records is None or size < HEADER_SIZE:
        return _no_batch(records)
    fields = HEADER.unpack_from(records)
    base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, latest, pid, _, sequence, count = fields
    header: BatchHeader = _new(BatchHeader, fields)
    # One whole batch of version 2, and nothing else: what every client sends.
    if length != size - LOG_OVERHEAD or magic != 2:
        return _not_one_batch(records, header)
    if attributes & COMPRESSION_MASK == ZSTD and produce_version < OLDEST_VERSION_OF_ZSTD:
        return RecordReject(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd_before_version_7", header=header)
    if base_offset != 0:
        return RecordReject(ErrorCode.INVALID_RECORD, "base_offset_not_zero", log_start_known=True, header=header)
    if size > policy.max_message_bytes:
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "larger_than_max_message_bytes", header=header)
    if crc32c(records[CRC_START:]) != crc:
        return RecordReject(ErrorCode.CORRUPT_MESSAGE, "crc", header=header)
    if count <= 0 or count != last_delta + 1 or attributes & CONTROL or (sequence < 0 and pid > -1):
        return RecordReject(ErrorCode.INVALID_RECORD, _header_rule(header), log_start_known=True, header=header)
    if size > policy.segment_bytes:
        return RecordReject(ErrorCode.RECORD_LIST_TOO_LARGE, "larger_than_segment_bytes", header=header)
    if full:
        if attributes & (COMPRESSION_MASK | LOG_APPEND_TIME) or policy.compression != "producer":
            return _check_unusual(records, header, policy, now)
        try:
            walked = walk_records(records[HEADER_SIZE:], count)
        except ProtocolError as damage:
            return _damaged(header, damage)
        highest, lowest, keyless = walked
        if (
            (keyless and policy.compacted)
            or base_timestamp + highest - now > policy.after_max_ms
            or now - base_timestamp - lowest > policy.before_max_ms
        ):
            fault = _record_fault(records[HEADER_SIZE:], walked, header, policy, now)
            if fault is not None:
                return fault
        if base_timestamp + highest != latest and not policy.append_time:
            return _with_max_timestamp(records, header, base_timestamp + highest)
    elif policy.compression != "producer":
        return _check_unusual(records, header, policy, now)
    if policy.append_time:
        return _with_append_time(records, header, now)
    plain: Checked = _new(Checked, (header, records, latest, -1, False))
    return plain


def _no_batch(records: memoryview | None) -> RecordReject:
    """Nothing at all, or too little for a batch. Kafka never answers null; INVALID_RECORD is what it would mean."""
    if records is not None:
        try:
            next_batch_size(records, 0)
        except CorruptBatch as corrupt:
            return RecordReject(ErrorCode.CORRUPT_MESSAGE, "corrupt_batch", str(corrupt))
    return RecordReject(ErrorCode.INVALID_RECORD, "no_batch" if records is not None else "null_records")


def _not_one_batch(records: memoryview, header: BatchHeader) -> RecordReject:
    """Kafka's iterator over the batches stops at a truncated one and throws at a damaged one."""
    sizes: list[int] = []
    pos = 0
    try:
        while len(sizes) < 2 and (size := next_batch_size(records, pos)) is not None and pos + size <= len(records):
            if records[pos + 16] != 2:
                return RecordReject(ErrorCode.INVALID_RECORD, "old_message_format", header=header)
            sizes.append(size)
            pos += size
    except CorruptBatch as corrupt:
        return RecordReject(ErrorCode.CORRUPT_MESSAGE, "corrupt_batch", str(corrupt), header=header)
    if not sizes:
        return RecordReject(ErrorCode.INVALID_RECORD, "no_batch", header=header)
    if len(sizes) > 1:
        return RecordReject(ErrorCode.INVALID_RECORD, "more_than_one_batch", header=header)
    # One batch, and behind it the beginning of another: Kafka goes on with the whole data and finds the CRC wrong.
    return RecordReject(ErrorCode.INVALID_RECORD, "trailing_bytes", header=header)


def _header_rule(header: BatchHeader) -> str:
    """Which of LogValidator.validateBatch's checks failed, in its order."""
    if header.last_offset_delta + 1 <= 0:
        return "offset_range"
    if header.records_count <= 0:
        return "record_count"
    if header.records_count != header.last_offset_delta + 1:
        return "count_and_offsets_differ"
    return "control_batch_from_client" if header.is_control else "negative_sequence"


def _damaged(header: BatchHeader, damage: Exception) -> RecordReject:
    return RecordReject(ErrorCode.INVALID_RECORD, f"damaged_records: {damage}", log_start_known=True, header=header)


def _record_fault(
    body: memoryview, walked: Walked, header: BatchHeader, policy: RecordPolicy, now: int
) -> RecordReject | None:
    """What is wrong with single records, if anything is."""
    if policy.compacted and walked.null_key:
        return _record_errors(body, header, policy, now)
    if policy.append_time:
        return None
    if header.base_timestamp + walked.max_delta - now > policy.after_max_ms:
        return _record_errors(body, header, policy, now)
    if now - header.base_timestamp - walked.min_delta > policy.before_max_ms:
        return _record_errors(body, header, policy, now)
    return None


def _record_errors(body: memoryview, header: BatchHeader, policy: RecordPolicy, now: int) -> RecordReject | None:
    """Name each record that is refused, as LogValidator does."""
    errors: list[tuple[int, str | None]] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(parse_records(body, header.records_count)):
        if policy.compacted and record.key is None:
            errors.append(
                (index, f"Compacted topic cannot accept message without key in topic partition {policy.topic}")
            )
        elif (text := _timestamp_fault(record, header, policy, now)) is not None:
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append((index, text))
    if not errors:
        return None
    if code is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(f"RecordError(batchIndex={i}, message='{text}')" for i, text in errors[:SHOWN_ERRORS])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    rule = "timestamp" if code is ErrorCode.INVALID_TIMESTAMP else "null_key_on_compacted_topic"
    return RecordReject(code, rule, message, errors, True, header)


def _timestamp_fault(record: Record, header: BatchHeader, policy: RecordPolicy, now: int) -> str | None:
    append_time = header.is_log_append_time
    timestamp = header.max_timestamp if append_time else header.base_timestamp + record.timestamp_delta
    if not policy.append_time and timestamp != -1:
        if now - timestamp > policy.before_max_ms or timestamp - now > policy.after_max_ms:
            return (
                f"Timestamp {timestamp} of message with offset {record.offset_delta} is out of range. The timestamp "
                f"should be within [{now - policy.before_max_ms}, {now + policy.after_max_ms}]"
            )
        return None
    if append_time:
        return (
            f"Invalid timestamp type in message {record.offset_delta}. Producer should not set timestamp type to "
            "LogAppendTime."
        )
    return None


def _check_unusual(records: memoryview, header: BatchHeader, policy: RecordPolicy, now: int) -> Checked | RecordReject:
    """A compressed batch, one that claims LogAppendTime, or a topic that wants another compression."""
    try:
        body = record_bytes(records, header)
    except CodecMissing:
        return Checked(header, records, header.max_timestamp, -1, False)  # the header is all there is to go by
    except ProtocolError as damage:
        return _damaged(header, damage)
    try:
        walked = walk_records(body, header.records_count)
        if header.is_log_append_time:
            fault = _record_errors(body, header, policy, now)
        else:
            fault = _record_fault(body, walked, header, policy, now)
        if fault is not None:
            return fault
        max_timestamp = _max_timestamp(header, walked)
        target = _target(header, policy)
        ordered = not (header.compression or target) or offset_deltas_in_order(body, header.records_count)
        if target != header.compression or not ordered:
            return _rebuilt(body, header, target, max_timestamp, policy, now)
    except ProtocolError as damage:
        return _damaged(header, damage)
    if policy.append_time:
        return _with_append_time(records, header, now)
    if max_timestamp != header.max_timestamp or header.is_log_append_time:
        return _with_max_timestamp(records, header, max_timestamp)
    return Checked(header, records, max_timestamp, -1, False)


def _max_timestamp(header: BatchHeader, walked: Walked) -> int:
    return header.max_timestamp if header.is_log_append_time else header.base_timestamp + walked.max_delta


def _target(header: BatchHeader, policy: RecordPolicy) -> int:
    """The compression that the topic stores this batch with."""
    if policy.compression == "producer":
        return header.compression
    return 0 if policy.compression == "uncompressed" else NAMES.index(policy.compression)


def _rebuilt(
    body: memoryview, header: BatchHeader, target: int, max_timestamp: int, policy: RecordPolicy, now: int
) -> Checked:
    """The same records in a new batch: numbered from 0, compressed as the topic wants it."""
    made = bytearray()
    for index, record in enumerate(parse_records(body, header.records_count)):
        write_record(made, record._replace(offset_delta=index))
    attributes = header.attributes & ~(COMPRESSION_MASK | LOG_APPEND_TIME) | target
    header = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    batch = bytearray(seal(header, compress(target, made, policy.level) if target else made))
    append_time = -1
    if policy.append_time:
        stamp_append_time(batch, now)
        max_timestamp = append_time = now
    return Checked(read_header(batch), batch, max_timestamp, append_time, True)


def _with_append_time(records: memoryview, header: BatchHeader, now: int) -> Checked:
    batch = bytearray(records)
    stamp_append_time(batch, now)
    return Checked(read_header(batch), batch, now, now, True)


def _with_max_timestamp(records: memoryview, header: BatchHeader, max_timestamp: int) -> Checked:
    """The batch with the timestamp that its records have, and as one of CreateTime."""
    batch = bytearray(records)
    _ATTRIBUTES.pack_into(batch, CRC_START, header.attributes & ~LOG_APPEND_TIME)
    set_max_timestamp(batch, max_timestamp)
    return Checked(read_header(batch), batch, max_timestamp, -1, True)
