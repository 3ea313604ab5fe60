"""Kafka's checks of the record data in a Produce request.

The checks are in Kafka's order: one batch of magic 2 (ProduceRequest.validateRecords); base offset, size and CRC (UnifiedLog);
the counts and every record (LogValidator); the segment's size. All checks of this module come before the idempotence
validator's check of the sequence. So the response to a damaged retry is an error, and not the success that a duplicate gets.

With `full`, the module reads all records, as Kafka does. Without `full`, the module trusts the batch header. Records are then
read only if the max timestamp is in the future, or if the topic stores records with another compression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkawire.batches import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DECOMPRESSED_LIMIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    next_batch_size,
    parse_records,
    patch_timestamps,
    read_header,
    record_bytes,
    seal,
    write_record,
)
from kafkawire.checksums import crc32c
from kafkawire.compression import NAMES, ZSTD, CodecMissing, Room, TooLarge, compress
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.primitives import Buffer
from kafkawire.record_columns import Walked
from kafkawire.record_walk import walk_in_order, walk_records
from kafkawire.varints import read_varint
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.releases import DEFAULT
from wirebroker.core.releases.changes import since, until

EXPLAINS_RECORDS = since("2.4", "refused records get error 87 with details, instead of error 2", "KIP-467")
NAMES_RECORDS = since("2.5", "the response to Produce names each refused record and its error")
COMPARES_COUNTS = since("1.1", "a batch's number of records must agree with its last offset delta")
KNOWS_ZSTD = since("2.1", "the broker knows the codec zstd", "KIP-110")
FORESEES_NULL_RECORDS = since("3.8", "Produce without record data gets no response")
REFUSES_APPEND_TIME = until("3.6", "a batch with the timestamp type LogAppendTime is accepted", "KIP-937")

SHOWN_ERRORS = 3
MOST_ERRORS = 1 << 16
"""The largest number of refused records that a response names. Kafka's response names all refused records."""
OLDEST_VERSION_OF_BATCHES, OLDEST_VERSION_OF_ZSTD = 3, 7
"""Two versions of Produce: the first that must contain one batch of magic 2, and the first whose batch may be compressed with
zstd."""
NO_TIMESTAMP = -1
_UNUSUAL = COMPRESSION_MASK | LOG_APPEND_TIME
_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_END_OF_PRODUCER_ID = 51
_LATEST = 2**63 - 1
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
DIFFERENCE = "message.timestamp.difference.max.ms"
UNFOLDED, MOST_UNFOLDED = "max.decompressed.message.bytes", 2**31 - 9
MANY_RECORDS = 1 << 14
"""Checking this number of records takes about ten milliseconds."""
MUCH_DATA = 1 << 21
"""Decompressing records of this size in bytes takes about ten milliseconds."""
MOST_COMPRESSED = MUCH_DATA // 4
_new = tuple.__new__
"""Creates a named tuple without its constructor: a call of the constructor would take as long as all the checks."""
_unpack = HEADER.unpack_from
_rooms: list[Room] = []
"""The buffers that no thread uses now."""


class RecordPolicy(NamedTuple):
    """A topic's settings for records. Sizes are in bytes, times in ms."""

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
    max_unfolded: int = MOST_UNFOLDED
    """The largest size of a record in a compressed batch, as given by the record's length field."""
    release: str = DEFAULT

    @classmethod
    def from_configs(cls, topic: str, configs: TopicConfigs) -> RecordPolicy:
        """Returns the policy that follows from a topic's settings."""
        compression = configs.text("compression.type")
        compacted = "compact" in configs.text("cleanup.policy")
        segment_ms = configs.integer("segment.ms")
        internal = configs.value("internal.segment.bytes")  # tests use smaller segments than Kafka 4 allows
        has_level = compression in ("gzip", "lz4", "zstd")
        return cls(
            topic,
            configs.integer("max.message.bytes"),
            internal if isinstance(internal, int) else configs.integer("segment.bytes"),
            min(segment_ms, configs.integer("max.compaction.lag.ms")) if compacted else segment_ms,
            compacted,
            configs.text("message.timestamp.type") == "LogAppendTime",
            *_timestamp_limits(configs),
            compression,
            configs.integer(f"compression.{compression}.level") if has_level else None,
            configs.integer(UNFOLDED) if UNFOLDED in configs.broker.definitions.topic else MOST_UNFOLDED,
            configs.release.name,
        )


def _timestamp_limits(configs: TopicConfigs) -> tuple[int, int]:
    """Returns two limits in ms: how far a record's timestamp may be before the broker's time, and how far after it.

    Up to Kafka 3.9, message.timestamp.difference.max.ms limits both directions if the two settings of KIP-937 have their
    defaults.
    """
    known = configs.broker.definitions.topic
    difference = configs.integer(DIFFERENCE) if DIFFERENCE in known else _LATEST
    if known[AFTER].absent:
        return difference, difference
    before, after = configs.integer(BEFORE), configs.integer(AFTER)
    return (difference, difference) if difference < _LATEST and before == after == _LATEST else (before, after)


class Checked(NamedTuple):
    """A batch that has passed all checks, in the form in which it will be stored.

    `batch` is the caller's buffer or a part of it. If `rewritten` is set, `batch` is a new buffer. `header` is the header of
    `batch`.
    """

    header: BatchHeader
    batch: Buffer
    max_timestamp: int
    log_append_time: int
    """on topics with LogAppendTime, the time of the append in ms since the epoch, else −1"""
    rewritten: bool


class TakesLong(Exception):
    """Raised if the check of the records would take long. The caller then calls `check` again in a thread, without
    `at_once`."""


class RecordReject(NamedTuple):
    """The rejection of the record data in a request. `log_start_known` tells whether the response has the log start offset.

    `rule` names the check that failed. A colon and details may follow the name.
    """

    code: int
    rule: str
    message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    log_start_known: bool = False
    header: BatchHeader | None = None

    def unexplained(self) -> RecordReject:
        """Returns the rejection as releases before KIP-467 send it: without the list of the refused records."""
        if self.code not in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP):
            return self
        code = ErrorCode.CORRUPT_MESSAGE if self.code == ErrorCode.INVALID_RECORD else self.code
        return RecordReject(code, self.rule, header=self.header)


def check(  # noqa: C901, PLR0912 - one loop, in the order in which Kafka checks
    records: memoryview | None, policy: RecordPolicy, now: int, produce_version: int, full: bool, at_once: bool = False
) -> Checked | RecordReject:
    """Check one partition's record data at the time `now`, in ms since the epoch.

    With `at_once`, the check raises TakesLong if it would have to read more than MANY_RECORDS or decompress more than
    MUCH_DATA.
    """
    if records is None or (size := len(records)) < HEADER_SIZE:
        return _first_batch(records, policy, now, produce_version, full, at_once)
    header = _new(BatchHeader, _unpack(records))
    base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, pid, _, first, count = header
    # Normal clients send exactly one whole batch of magic 2. `_first_batch` checks all other data.
    if length != size - LOG_OVERHEAD or magic != 2:
        return _first_batch(records, policy, now, produce_version, full, at_once)
    codec = attributes & COMPRESSION_MASK
    if codec >= ZSTD and produce_version < OLDEST_VERSION_OF_ZSTD and KNOWS_ZSTD.at(policy.release):
        return _codec_of_later_version(codec, header)
    if base_offset != 0:
        return RecordReject(ErrorCode.INVALID_RECORD, "base_offset_not_zero", log_start_known=True, header=header)
    if size > policy.max_message_bytes:
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "larger_than_max_message_bytes", header=header)
    if crc32c(records[CRC_START:]) != crc:
        return RecordReject(ErrorCode.CORRUPT_MESSAGE, "crc", header=header)
    if codec > ZSTD or (codec == ZSTD and not KNOWS_ZSTD.at(policy.release)):
        return _server_error(header, "unknown_compression")
    if count <= 0 or count != last_delta + 1 or attributes & CONTROL or (first < 0 and pid > -1):
        if 0 < count <= last_delta and not COMPARES_COUNTS.at(policy.release):
            counted = seal(header._replace(last_offset_delta=count - 1), records[HEADER_SIZE:])
            return check(memoryview(counted), policy, now, produce_version, full, at_once)
        return _header_error(header)
    full = full or max_timestamp - now > policy.after_max_ms
    if at_once and count > MANY_RECORDS and (full or policy.compression != "producer"):
        raise TakesLong
    if (full and attributes & _UNUSUAL) or policy.compression != "producer":
        return _fitting(_check_unusual(records, header, policy, now, at_once), policy)
    if full:
        body = records[HEADER_SIZE:]
        try:
            walked = walk_records(body, count)
        except ProtocolError as damage:
            return _damaged(header, damage)
        latest = base_timestamp + walked.max_delta
        if _suspicious(walked, header, policy, now) and (error := _record_errors(body, header, policy, now)) is not None:
            return error
        if latest < NO_TIMESTAMP:  # Kafka's search for the largest timestamp starts at −1
            latest = NO_TIMESTAMP
    else:
        latest = max_timestamp
    if size > policy.segment_bytes:
        return _larger_than_segment(header)
    if policy.append_time or latest != max_timestamp:
        return _as_stored(records, header, latest, policy, now)
    return _new(Checked, (header, records, max_timestamp, -1, False))


def _first_batch(
    records: memoryview | None, policy: RecordPolicy, now: int, produce_version: int, full: bool, at_once: bool
) -> Checked | RecordReject:
    """Check record data that is not exactly one whole batch. A truncated batch after the first batch is ignored."""
    if records is None and not FORESEES_NULL_RECORDS.at(policy.release):
        return RecordReject(ErrorCode.UNKNOWN_SERVER_ERROR, "null_records", log_start_known=True)
    size = size_of_only_batch(records, produce_version)
    if records is None or isinstance(size, RecordReject):
        assert isinstance(size, RecordReject)
        return size
    if size < HEADER_SIZE:
        return _shorter_than_its_header(records[:size], policy)
    return check(records[:size], policy, now, produce_version, full, at_once)


def size_of_only_batch(records: memoryview | None, produce_version: int) -> int | RecordReject:
    """Returns the size of the only batch in the record data, or the rejection by ProduceRequest.validateRecords.

    As in Kafka's iterator over batches, a truncated batch ends the data, and a damaged batch is an error. Kafka sends no
    response to null records. For null records this returns INVALID_RECORD, the error that fits best.
    """
    if records is None:
        return RecordReject(ErrorCode.INVALID_RECORD, "null_records")
    header = read_header(records) if len(records) >= HEADER_SIZE else None
    size = None
    try:
        size = next_batch_size(records, 0)
        if size is None or size > len(records):
            return RecordReject(ErrorCode.INVALID_RECORD, "no_batch", header=header)
        if records[_MAGIC_AT] != 2:
            return RecordReject(ErrorCode.INVALID_RECORD, "old_message_format", header=header)
        codec = records[_ATTRIBUTES_AT] & COMPRESSION_MASK
        if codec >= ZSTD and produce_version < OLDEST_VERSION_OF_ZSTD:
            return _codec_of_later_version(codec, header)
        following = next_batch_size(records, size)
        if following is not None and size + following <= len(records):
            return RecordReject(ErrorCode.INVALID_RECORD, "more_than_one_batch", header=header)
    except CorruptBatch as corrupt:
        message = str(corrupt) if size is None else None  # if the second batch is damaged, Kafka's response has no message
        return RecordReject(ErrorCode.CORRUPT_MESSAGE, f"corrupt_batch: {corrupt}", message, header=header)
    return size


def size_error(records: memoryview | None, produce_version: int) -> RecordReject | None:
    """Returns the rejection by ProduceRequest.validateRecords, or None. Checks nothing in versions of Produce that have message
    sets."""
    if produce_version < OLDEST_VERSION_OF_BATCHES and records is not None:
        return None
    found = size_of_only_batch(records, produce_version)
    return found if isinstance(found, RecordReject) else None


def _shorter_than_its_header(batch: memoryview, policy: RecordPolicy) -> RecordReject:
    """Returns the rejection of a batch that is shorter than a batch header. Kafka reads the producer id before it checks the
    size. So Kafka's code fails if the data ends before the end of the producer id."""
    if len(batch) < _END_OF_PRODUCER_ID:
        return RecordReject(ErrorCode.UNKNOWN_SERVER_ERROR, "batch_ends_inside_its_header")
    if any(batch[:8]):
        return RecordReject(ErrorCode.INVALID_RECORD, "base_offset_not_zero", log_start_known=True)
    if len(batch) > policy.max_message_bytes:
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "larger_than_max_message_bytes")
    return RecordReject(ErrorCode.CORRUPT_MESSAGE, "batch_ends_inside_its_header")


def _codec_of_later_version(codec: int, header: BatchHeader | None) -> RecordReject:
    if codec > ZSTD:
        return RecordReject(ErrorCode.UNKNOWN_SERVER_ERROR, "unknown_compression", header=header)
    return RecordReject(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd_before_version_7", header=header)


def _header_error(header: BatchHeader) -> RecordReject:
    """Returns the rejection for the first check of LogValidator.validateBatch that fails."""
    if header.last_offset_delta + 1 <= 0:
        rule = "offset_range"
    elif header.records_count <= 0:
        rule = "record_count"
    elif header.records_count != header.last_offset_delta + 1:
        rule = "count_and_offsets_differ"
    else:
        rule = "control_batch_from_client" if header.is_control else "negative_sequence"
    return RecordReject(ErrorCode.INVALID_RECORD, rule, log_start_known=True, header=header)


def _damaged(header: BatchHeader, damage: Exception) -> RecordReject:
    return RecordReject(ErrorCode.INVALID_RECORD, f"damaged_records: {damage}", log_start_known=True, header=header)


def _server_error(header: BatchHeader, rule: str) -> RecordReject:
    """Returns the rejection of data that raises an unexpected exception in Kafka: UNKNOWN_SERVER_ERROR."""
    return RecordReject(ErrorCode.UNKNOWN_SERVER_ERROR, rule, log_start_known=True, header=header)


def _larger_than_segment(header: BatchHeader) -> RecordReject:
    return RecordReject(ErrorCode.RECORD_LIST_TOO_LARGE, "larger_than_segment_bytes", header=header)


def _fitting(checked: Checked | RecordReject, policy: RecordPolicy) -> Checked | RecordReject:
    """Returns `checked`. Returns a rejection instead if the batch, in the form in which it would be stored, is too large for a
    segment."""
    if isinstance(checked, Checked) and len(checked.batch) > policy.segment_bytes:
        return _larger_than_segment(checked.header)
    return checked


class _Skimmed(NamedTuple):
    """Those fields of a record that the checks need."""

    offset_delta: int
    timestamp_delta: int
    keyless: bool


def _skim(body: memoryview, count: int) -> Iterator[_Skimmed]:
    """Yields the records of a batch, parsed as Kafka parses a compressed batch that it stores unchanged.

    For such a batch, Kafka ignores the length field of each record (DefaultRecord.readPartiallyFrom). Raises ProtocolError.
    """
    pos = 0
    try:
        for _ in range(count):
            _, pos = read_varint(body, pos)
            timestamp_delta, pos = read_varint(body, pos + 1)
            offset_delta, pos = read_varint(body, pos)
            key, pos = read_varint(body, pos)
            value, pos = read_varint(body, pos + max(key, 0))
            headers, pos = read_varint(body, pos + max(value, 0))
            if headers < 0:
                raise ProtocolError(f"a record announces {headers} headers")
            for _ in range(headers):
                name, pos = read_varint(body, pos)
                if name < 0:
                    raise ProtocolError("a record header without a name")
                content, pos = read_varint(body, pos + name)
                pos += max(content, 0)
            yield _Skimmed(offset_delta, timestamp_delta, key < 0)
    except IndexError as damage:
        raise ProtocolError("a record runs past the end of its batch") from damage
    if pos != len(body):
        raise ProtocolError("the records do not fill their batch")


def _walk_compressed(body: memoryview, count: int) -> tuple[Walked, bool]:
    """Read the records of a compressed batch that is stored unchanged. Also returns whether the offset deltas are in order:
    0, 1, 2 and so on."""
    try:
        return walk_in_order(body, count)
    except ProtocolError:
        high, low, keyless, ordered = -(2**63), 2**63 - 1, False, True
        for index, record in enumerate(_skim(body, count)):
            high, low = max(high, record.timestamp_delta), min(low, record.timestamp_delta)
            keyless = keyless or record.keyless
            ordered = ordered and record.offset_delta == index
        return Walked(high, low, keyless), ordered


def _suspicious(walked: Walked, header: BatchHeader, policy: RecordPolicy, now: int) -> bool:
    """Tells whether the batch may have a record that must be refused. Then the records must be checked one by one."""
    return (
        header.base_timestamp + walked.max_delta - now > policy.after_max_ms
        or now - header.base_timestamp - walked.min_delta > policy.before_max_ms
        or (policy.compacted and walked.null_key)
        or header.is_log_append_time
    )


def _record_errors(body: memoryview, header: BatchHeader, policy: RecordPolicy, now: int) -> RecordReject | None:
    """Returns a rejection that names each refused record, as LogValidator does, or None if no record is refused. The caller has
    already parsed `body` once without an error."""
    errors: list[tuple[int, str | None]] = []
    found = 0
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(_skim(body, header.records_count)):
        if policy.compacted and record.keyless:
            error: str | None = f"Compacted topic cannot accept message without key in topic partition {policy.topic}"
        elif (error := _timestamp_error(record, header, policy, now)) is not None:
            code = ErrorCode.INVALID_TIMESTAMP
        if error is not None:
            found += 1
            if found <= MOST_ERRORS:
                errors.append((index, error))
    if not errors:
        return None
    if code is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(f"RecordError(batchIndex={i}, message='{text}')" for i, text in errors[:SHOWN_ERRORS])
        message = (
            f"One or more records have been rejected due to {found} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    if not NAMES_RECORDS.at(policy.release):
        errors = [(errors[0][0], None)]
    rule = "timestamp" if code is ErrorCode.INVALID_TIMESTAMP else "null_key_on_compacted_topic"
    return RecordReject(code, rule, message, errors, True, header)


def _timestamp_error(record: _Skimmed, header: BatchHeader, policy: RecordPolicy, now: int) -> str | None:
    append_time = header.is_log_append_time
    timestamp = header.max_timestamp if append_time else header.base_timestamp + record.timestamp_delta
    if not policy.append_time and timestamp != NO_TIMESTAMP:
        if now - timestamp > policy.before_max_ms or timestamp - now > policy.after_max_ms:
            return (
                f"Timestamp {timestamp} of message with offset {record.offset_delta} is out of range. The timestamp "
                f"should be within [{now - policy.before_max_ms}, {now + policy.after_max_ms}]"
            )
        if not REFUSES_APPEND_TIME.at(policy.release):
            return None
    if append_time:
        return (
            f"Invalid timestamp type in message {record.offset_delta}. Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _check_unusual(
    records: memoryview, header: BatchHeader, policy: RecordPolicy, now: int, at_once: bool
) -> Checked | RecordReject:
    """Check a compressed batch, a batch with the timestamp type LogAppendTime, or a batch for a topic that stores another
    compression."""
    if at_once and header.compression and len(records) > MOST_COMPRESSED:
        raise TakesLong
    room = _rooms.pop() if _rooms else Room()
    try:
        return _check_records(records, header, policy, now, at_once, room)
    finally:
        room.tidy()
        _rooms.append(room)


def _check_records(
    records: memoryview, header: BatchHeader, policy: RecordPolicy, now: int, at_once: bool, room: Room
) -> Checked | RecordReject:
    codec, target = header.compression, _target(header, policy)
    try:
        body = record_bytes(records, header, MUCH_DATA if at_once else DECOMPRESSED_LIMIT, room)
    except CodecMissing as missing:
        if codec != target:
            return _codec_missing(header, missing)
        return _as_stored(records, header, header.max_timestamp, policy, now)  # without the codec
    except TooLarge as large:
        if at_once:
            raise TakesLong from None
        # Kafka has no limit for decompressed data, because it never holds all the data in memory
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "unfolds_into_too_much", str(large), header=header)
    except ProtocolError as damage:
        return _server_error(header, f"damaged_compression: {damage}")
    ordered = True
    try:
        if codec and policy.max_unfolded < len(body) and (size := _first_above(policy.max_unfolded, body)):
            return RecordReject(ErrorCode.INVALID_RECORD, f"unfolds_into_{size}_bytes", log_start_known=True, header=header)
        if codec and codec == target:
            walked, ordered = _walk_compressed(body, header.records_count)
        else:
            walked = walk_records(body, header.records_count)
        error = _record_errors(body, header, policy, now) if _suspicious(walked, header, policy, now) else None
        if error is not None:
            return error
        if codec != target:
            return _rebuilt(body, header, target, policy, now)
    except ProtocolError as damage:
        return _damaged(header, damage)
    if not ordered:  # Kafka's code fails here, because it has not kept the keys and values
        return _server_error(header, "offset_deltas_out_of_order")
    latest = header.max_timestamp if header.is_log_append_time else header.base_timestamp + walked.max_delta
    return _as_stored(records, header, max(latest, NO_TIMESTAMP), policy, now)


def _first_above(limit: int, body: memoryview) -> int:
    """Returns the size of the first record that is larger than `limit`, or 0 if no record is larger. The size is taken from the
    record's length field."""
    at = 0
    while at < len(body):
        try:
            size, at = read_varint(body, at)
        except IndexError:
            return 0  # the records are truncated; a later check rejects them
        if size > limit:
            return size
        at += max(size, 0)
    return 0


def _target(header: BatchHeader, policy: RecordPolicy) -> int:
    """Returns the number of the compression codec with which the topic stores the batch."""
    if policy.compression == "producer":
        return header.compression
    return 0 if policy.compression == "uncompressed" else NAMES.index(policy.compression)


def _codec_missing(header: BatchHeader, missing: CodecMissing) -> RecordReject:
    return RecordReject(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec_missing", str(missing), header=header)


def _as_stored(records: memoryview, header: BatchHeader, latest: int, policy: RecordPolicy, now: int) -> Checked:
    """Returns the batch as it is stored: with the topic's timestamp type, and with `latest` as its max timestamp."""
    if latest > _LATEST:
        latest = NO_TIMESTAMP  # in Java, a sum above 63 bits becomes negative
    stamp = now if policy.append_time else latest
    if stamp == header.max_timestamp and policy.append_time == header.is_log_append_time:
        return Checked(header, records, stamp, now if policy.append_time else -1, False)
    batch = bytearray(records)
    patch_timestamps(batch, stamp, append_time=policy.append_time)
    return Checked(read_header(batch), batch, stamp, now if policy.append_time else -1, True)


def _rebuilt(body: memoryview, header: BatchHeader, target: int, policy: RecordPolicy, now: int) -> Checked | RecordReject:
    """Returns a new batch with the records in `body`. The offset deltas begin at 0, and the base timestamp is the first
    record's timestamp (MemoryRecordsBuilder)."""
    if header.producer_id == -1 and header.is_transactional:
        return _server_error(header, "transactional_without_producer_id")
    if header.producer_id != -1 and (header.producer_epoch == -1 or header.base_sequence < 0):
        return _server_error(header, "producer_id_without_epoch_or_sequence")
    made = bytearray()
    base = latest = NO_TIMESTAMP
    for index, record in enumerate(parse_records(body, header.records_count)):
        timestamp = header.base_timestamp + record.timestamp_delta
        if header.is_log_append_time:
            timestamp = header.max_timestamp
        if not NO_TIMESTAMP <= timestamp <= _LATEST:
            return _server_error(header, "negative_timestamp")
        base = timestamp if index == 0 else base
        latest = max(latest, timestamp)
        write_record(made, record._replace(offset_delta=index, timestamp_delta=timestamp - base))
    attributes = header.attributes & TRANSACTIONAL | target
    header = header._replace(attributes=attributes, base_timestamp=base, max_timestamp=latest)
    try:
        batch = bytearray(seal(header, compress(target, made, policy.level) if target else made))
    except CodecMissing as missing:
        return _codec_missing(header, missing)
    if len(batch) > policy.max_message_bytes:
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "larger_than_max_message_bytes", header=header)
    if policy.append_time:
        latest = now
        patch_timestamps(batch, now, append_time=True)
    return Checked(read_header(batch), batch, latest, now if policy.append_time else -1, True)
