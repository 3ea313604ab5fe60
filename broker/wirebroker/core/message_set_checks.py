"""Kafka's checks of message sets, which are the records in Produce before version 3. A valid message set is converted to one
batch of magic 2.

First each message's size and CRC are checked (UnifiedLog), then its magic and the messages inside a wrapper (LogValidator).
Then the new batch is checked like any batch: timestamps, keys, compression, sizes. A Produce request before version 3 may also
contain a batch of magic 2, because ProduceRequest.validateRecords does not check the magic.
"""

from __future__ import annotations

from kafkawire.batches import MAGIC_AT, CorruptBatch, iter_batches
from kafkawire.compression import CodecMissing, TooLarge
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.message_sets import (
    NO_TIMESTAMP,
    InvalidSet,
    as_batch,
    has_valid_crc,
    messages_in,
    read_message,
)
from wirebroker.core.record_checks import (
    OLDEST_VERSION_OF_BATCHES,
    OLDEST_VERSION_OF_ZSTD,
    Checked,
    RecordPolicy,
    RecordReject,
    TakesLong,
    check,
)
from wirebroker.core.releases.changes import until

TAKES_MANY_BATCHES = until("2.4", "Produce before version 3 is refused if it has two compressed messages")

MUCH_DATA = 1 << 16
"""A message set of this size in bytes takes about ten milliseconds to convert."""
BATCH = 2
"""The magic of the current batch format."""
_ANY_SIZE = 2**31 - 1


def check_any(
    records: memoryview | None, policy: RecordPolicy, now: int, produce_version: int, full: bool, at_once: bool = False
) -> Checked | RecordReject:
    """Does the same as `check`, and also handles the versions of Produce that have message sets. With `at_once`, raises
    TakesLong if the check would take long."""
    if produce_version >= OLDEST_VERSION_OF_BATCHES or records is None:
        return check(records, policy, now, produce_version, full, at_once)
    if at_once and len(records) > MUCH_DATA:
        raise TakesLong
    try:
        entries = list(iter_batches(records))
        if not entries:
            return RecordReject(ErrorCode.NONE, "no_messages")  # Kafka accepts an empty message set and appends nothing
        if entries[0][MAGIC_AT] == BATCH:
            return check(records, policy, now, OLDEST_VERSION_OF_ZSTD, full, at_once)
        return _converted(entries, policy, now)
    except CorruptBatch as corrupt:
        return RecordReject(ErrorCode.CORRUPT_MESSAGE, f"corrupt_message: {corrupt}")
    except InvalidSet as invalid:
        return RecordReject(ErrorCode.INVALID_RECORD, f"message_set: {invalid}", log_start_known=True)
    except CodecMissing as missing:
        return RecordReject(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec_missing", str(missing))
    except TooLarge as large:
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "unfolds_into_too_much", str(large))
    except ProtocolError as damage:
        return _server_error(f"damaged_message: {damage}")


def _converted(entries: list[memoryview], policy: RecordPolicy, now: int) -> Checked | RecordReject:
    for entry in entries:
        if len(entry) > policy.max_message_bytes:
            return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "larger_than_max_message_bytes")
        if entry[MAGIC_AT] < BATCH and not has_valid_crc(entry):
            return RecordReject(ErrorCode.CORRUPT_MESSAGE, "crc")
    magics = {entry[MAGIC_AT] for entry in entries}
    if len(magics) > 1 and (BATCH in magics or not TAKES_MANY_BATCHES.at(policy.release)):
        raise InvalidSet("messages of different magics in one set")
    messages = [read_message(entry) for entry in entries]
    codec = next((each.compression for each in reversed(messages) if each.compression), 0)
    if codec and len(messages) > 1 and not TAKES_MANY_BATCHES.at(policy.release):
        raise InvalidSet("Compressed outer record has more than one batch")
    inside = [each for message in messages for each in (messages_in(message) if message.compression else (message,))]
    if any(each.timestamp < NO_TIMESTAMP for each in inside):
        return _server_error("negative_timestamp")
    batch = memoryview(as_batch(inside, codec))
    checked = check(batch, policy._replace(max_message_bytes=_ANY_SIZE), now, OLDEST_VERSION_OF_ZSTD, True)
    if isinstance(checked, Checked) and len(checked.batch) > policy.max_message_bytes:
        return RecordReject(ErrorCode.MESSAGE_TOO_LARGE, "larger_than_max_message_bytes", header=checked.header)
    return checked


def _server_error(rule: str) -> RecordReject:
    return RecordReject(ErrorCode.UNKNOWN_SERVER_ERROR, rule, log_start_known=True)
