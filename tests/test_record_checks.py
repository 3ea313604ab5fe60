"""The checks of a batch that the broker does before it checks the batch's sequence (A17).

The batches in `ANSWERS` were sent to a broker of Kafka 4.3.1 over the wire. Each row has Kafka's response. If Kafka accepted
the batch, the row also says how Kafka stored it. Four rows were not recorded: the response follows from the source of Kafka's
LogValidator. Three of these rows depend on a single millisecond. They cannot be recorded on a broker whose clock runs. The
fourth is a transactional batch, which was not sent.

The title "the size before the CRC" means that the size is checked before the CRC.
"""

from __future__ import annotations

import random
import re
import sys
import tracemalloc
from collections.abc import Sequence
from typing import Any, NamedTuple

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batches import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    build_batch,
    crc_of,
    iter_records,
    read_header,
    seal,
    write_record,
)
from kafkawire.compression import GZIP, LZ4, NAMES, SNAPPY, ZSTD, compress
from kafkawire.errors import error_name
from kafkawire.extras import how_to_install
from kafkawire.varints import write_varint
from wirebroker.core.configs import BrokerConfigs, TopicConfigs
from wirebroker.core.record_checks import Checked, RecordPolicy, RecordReject, check
from wirebroker_tools.conformance.batches import record_data
from wirebroker_tools.conformance.recording import Scenario, load
from wirekit import NOW

CORRUPT, TOO_LARGE, LIST_TOO_LARGE, BAD_TIME, UNSUPPORTED, INVALID, SERVER = 2, 10, 18, 32, 76, 87, -1
HOUR = 3_600_000
FAR = 2**63 - 1
CODECS = pytest.mark.parametrize("codec", range(5), ids=NAMES)

DEFAULT = RecordPolicy("orders-0")
COMPACTED = RecordPolicy("orders-0", compacted=True)
COMPACTED_GZIP = RecordPolicy("orders-0", compacted=True, compression="gzip")
APPEND_TIME = RecordPolicy("orders-0", append_time=True)
APPEND_TIME_GZIP = RecordPolicy("orders-0", append_time=True, compression="gzip")
STRICT_TIME = RecordPolicy("orders-0", before_max_ms=1000, after_max_ms=1000)
PLAIN_TOPIC = RecordPolicy("orders-0", compression="uncompressed")
GZIP_TOPIC = RecordPolicy("orders-0", compression="gzip")
SMALL_PLAIN = RecordPolicy("orders-0", max_message_bytes=500, compression="uncompressed")
SEGMENTS = RecordPolicy("orders-0", max_message_bytes=3_000_000, segment_bytes=1_048_576)
PLAIN_SEGMENTS = SEGMENTS._replace(compression="uncompressed")


def batch(
    deltas: Sequence[int] = (0,), *, keys: list[bytes | None] | bytes | None = b"k", size: int = 2, base: int = NOW,
    **options: Any,
) -> bytes:  # fmt: skip
    """Returns a batch with one record for each timestamp delta."""
    each = keys if isinstance(keys, list) else [keys] * len(deltas)
    records = [Record(i, delta, each[i], b"x" * size) for i, delta in enumerate(deltas)]
    return build_batch(records, base_timestamp=base, **options)


def altered(made: bytes, **changes: int) -> bytes:
    """Changes header fields of a batch. Makes the CRC valid again, unless `changes` has a CRC."""
    raw = bytearray(made)
    HEADER.pack_into(raw, 0, *read_header(made)._replace(**changes))
    if "crc" not in changes:
        raw[17:21] = crc_of(raw).to_bytes(4, "big")
    return bytes(raw)


def of_body(body: bytes, count: int = 1, codec: int = 0, folded: bytes | None = None, **fields: int) -> bytes:
    """Returns a batch that has `body` as its records."""
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, NOW, NOW, -1, -1, -1, count)._replace(**fields)
    if folded is None:
        folded = compress(codec, body) if codec else body
    return seal(header, folded)


def record(
    *, size: int | None = None, attributes: int = 0, offset: int = 0, key: bytes = b"\2k", headers: bytes = b"\0"
) -> bytes:
    """Returns one record, whose fields may be invalid."""
    body = bytearray([attributes, 0])
    write_varint(body, offset)
    body += key + b"\2v" + headers
    out = bytearray()
    write_varint(out, len(body) if size is None else size)
    return bytes(out + body)


def whole_batch_of(size: int, base_offset: int = 0) -> bytes:
    """Returns a batch of `size` bytes, which is smaller than a header."""
    return base_offset.to_bytes(8, "big") + (size - 12).to_bytes(4, "big") + b"\0\0\0\0\2" + bytes(size - 17)


FIVE = b"".join(record(offset=i) for i in range(5))
GOOD = batch((0, 0, 0))
IN_ZSTD = batch((0, 0), compression=ZSTD)


class Response(NamedTuple):
    """Kafka's response: the error code, whether the response has a log start offset, and which records the record errors
    name.
    """

    code: int
    log_start: bool = False
    records: Sequence[int] = ()
    message: bool = False


class Stored(NamedTuple):
    """The batch as it is stored. `max_timestamp` and `attributes` are fields of the stored header."""

    max_timestamp: int = NOW
    attributes: int = 0
    rewritten: bool = False
    """Tells whether the broker stores a new batch in place of the sent batch."""
    records: int = 3
    """The number of stored records; −1 if the test does not read the records, because they are damaged."""


TAKEN = Stored()
WRONG = Response(INVALID, True)
"""The response if LogValidator refuses a batch with INVALID_RECORD."""
NO_BATCH = Response(INVALID)
FAILED = Response(SERVER, True)
FAILED_EARLY = Response(SERVER)


def timed(*records: int) -> Response:
    """Returns the response to a batch if the timestamps of the records `records` are out of range."""
    return Response(BAD_TIME, True, records, True)


def unkeyed(*records: int) -> Response:
    """Returns the response to a batch for a compacted topic if the records `records` have no key."""
    return Response(INVALID, True, records, True)


Row = tuple[str, bytes | None, RecordPolicy, Response | Stored]

ONE_BATCH: list[Row] = [
    ("nothing", b"", DEFAULT, NO_BATCH),
    ("null, to which Kafka never responds", None, DEFAULT, NO_BATCH),
    ("a batch cut short", GOOD[:-1], DEFAULT, NO_BATCH),
    ("a header cut short", GOOD[:20], DEFAULT, NO_BATCH),
    ("two batches", GOOD + GOOD, DEFAULT, NO_BATCH),
    ("a truncated batch after a whole one is cut off", GOOD + GOOD[:-1], DEFAULT, TAKEN),
    ("one byte after a whole batch is cut off", GOOD + b"x", DEFAULT, TAKEN),
    ("a CRC over more than the batch", GOOD[:17] + crc_of(GOOD + b"x").to_bytes(4, "big") + GOOD[21:] + b"x",
     DEFAULT, Response(CORRUPT)),
    ("a batch of no length after a whole one", GOOD + bytes(60), DEFAULT, Response(CORRUPT)),
    ("a batch of unknown magic after a whole one", GOOD + GOOD[:16] + b"\5" + GOOD[17:], DEFAULT, Response(CORRUPT)),
    ("an old batch after a whole one", GOOD + altered(GOOD, magic=1), DEFAULT, NO_BATCH),
    ("a negative length", altered(GOOD, batch_length=-5), DEFAULT, Response(CORRUPT, message=True)),
    ("a length of ten", altered(GOOD, batch_length=10), DEFAULT, Response(CORRUPT, message=True)),
    ("magic 3", altered(GOOD, magic=3), DEFAULT, Response(CORRUPT, message=True)),
    ("magic -1", altered(GOOD, magic=-1), DEFAULT, Response(CORRUPT, message=True)),
    ("magic 1", altered(GOOD, magic=1), DEFAULT, NO_BATCH),
    ("a whole old batch of 40 bytes", altered(GOOD, magic=0, batch_length=28)[:40], DEFAULT, NO_BATCH),
    ("a whole batch of 26 bytes", whole_batch_of(26), DEFAULT, FAILED_EARLY),
    ("a whole batch of 50 bytes", whole_batch_of(50), DEFAULT, FAILED_EARLY),
    ("a whole batch of 51 bytes", whole_batch_of(51), DEFAULT, Response(CORRUPT)),
    ("a whole batch of 60 bytes", whole_batch_of(60), DEFAULT, Response(CORRUPT)),
    ("a whole batch of 60 bytes with an offset", whole_batch_of(60, base_offset=1), DEFAULT, WRONG),
    ("a whole batch of 60 bytes where 50 are allowed", whole_batch_of(60), DEFAULT._replace(max_message_bytes=50),
     Response(TOO_LARGE)),
]  # fmt: skip

HEADERS: list[Row] = [
    ("sound", GOOD, DEFAULT, TAKEN),
    ("a leader epoch", altered(GOOD, partition_leader_epoch=77), DEFAULT, TAKEN),
    ("a base offset", altered(GOOD, base_offset=5), DEFAULT, WRONG),
    ("a base offset before the size", altered(batch(size=600), base_offset=5), SMALL_PLAIN, WRONG),
    ("a base offset before the CRC", altered(GOOD, base_offset=5, crc=1), DEFAULT, WRONG),
    ("a wrong CRC", altered(GOOD, crc=1), DEFAULT, Response(CORRUPT)),
    ("the size before the CRC", altered(batch(size=600), crc=1), SMALL_PLAIN, Response(TOO_LARGE)),
    ("the CRC before the count", altered(GOOD, records_count=0, crc=1), DEFAULT, Response(CORRUPT)),
    ("the CRC before the codec", altered(GOOD, attributes=5, crc=1), DEFAULT, Response(CORRUPT)),
    ("a fifth codec", altered(GOOD, attributes=5), DEFAULT, FAILED),
    ("a seventh codec before the count", altered(GOOD, attributes=7, records_count=0), DEFAULT, FAILED),
    ("count 0", altered(GOOD, records_count=0), DEFAULT, WRONG),
    ("count -1 and offsets to match", altered(GOOD, records_count=-1, last_offset_delta=-2), DEFAULT, WRONG),
    ("offsets beyond the count", altered(GOOD, last_offset_delta=4), DEFAULT, WRONG),
    ("a count beyond the offsets", altered(GOOD, records_count=5), DEFAULT, WRONG),
    ("the least last offset", altered(GOOD, last_offset_delta=-(2**31)), DEFAULT, WRONG),
    ("a control batch", altered(GOOD, attributes=CONTROL), DEFAULT, WRONG),
    ("a producer id without a sequence", altered(GOOD, producer_id=5), DEFAULT, WRONG),
    ("a producer id with sequence -2", altered(GOOD, producer_id=5, base_sequence=-2), DEFAULT, WRONG),
    ("producer id -2 means no producer", altered(GOOD, producer_id=-2), DEFAULT, TAKEN),
    ("unknown attributes are kept", altered(GOOD, attributes=0x7F40), DEFAULT, Stored(attributes=0x7F40)),
    ("unknown attributes are lost with the timestamp", altered(GOOD, attributes=0x7F40, max_timestamp=1), DEFAULT,
     Stored(attributes=0x40, rewritten=True)),
    ("unknown attributes are lost with the timestamp type", altered(GOOD, attributes=-120), DEFAULT,
     Stored(rewritten=True)),
]  # fmt: skip

RECORDS: list[Row] = [
    ("more records than counted", altered(GOOD, records_count=2, last_offset_delta=1), DEFAULT, WRONG),
    ("fewer records than counted", altered(GOOD, records_count=4, last_offset_delta=3), DEFAULT, WRONG),
    ("no records at all", altered(GOOD[:HEADER_SIZE], batch_length=49), DEFAULT, WRONG),
    ("a size beyond the end", of_body(record(size=20)), DEFAULT, WRONG),
    ("a size too small", of_body(record(size=3)), DEFAULT, WRONG),
    ("a negative size", of_body(record(size=-1)), DEFAULT, WRONG),
    ("attributes of a record", of_body(record(attributes=7)), DEFAULT, Stored(records=1)),
    ("offset 5 first", of_body(record(offset=5)), DEFAULT, Stored(records=1)),
    ("offset -1 first", of_body(record(offset=-1)), DEFAULT, Stored(records=1)),
    ("-1 headers", of_body(record(headers=b"\1")), DEFAULT, WRONG),
    ("a hundred headers", of_body(record(headers=b"\xc8\1")), DEFAULT, WRONG),
    ("a header without a name", of_body(record(headers=b"\2\1\1")), DEFAULT, WRONG),
    ("a header whose name is not text", of_body(record(headers=b"\2\2\xff\1")), DEFAULT, Stored(records=1)),
    ("a header that runs past the end", of_body(record(headers=b"\2\2h\x10")), DEFAULT, WRONG),
    ("key size -5", of_body(record(key=b"\x09")), DEFAULT, Stored(records=1)),
    ("a size of six bytes", of_body(b"\x8e\x80\x80\x80\x80\0" + record()[1:], codec=GZIP), PLAIN_TOPIC, WRONG),
    # If Kafka stores a compressed batch unchanged, it checks neither the sizes nor the keys of the records.
    ("gzip: a size beyond the end", of_body(record(size=20), codec=GZIP), DEFAULT, Stored(attributes=GZIP, records=-1)),
    ("gzip: a negative size", of_body(record(size=-1), codec=GZIP), GZIP_TOPIC, Stored(attributes=GZIP, records=-1)),
    ("gzip: a size beyond the end, to be rewritten", of_body(record(size=20), codec=GZIP), PLAIN_TOPIC, WRONG),
    ("gzip: offset 5 first", of_body(record(offset=5), codec=GZIP), DEFAULT, FAILED),
    ("gzip: offset -1 first on a topic of gzip", of_body(record(offset=-1), codec=GZIP), GZIP_TOPIC, FAILED),
    ("gzip: offset 5 first, to be rewritten", of_body(record(offset=5), codec=GZIP), PLAIN_TOPIC,
     Stored(rewritten=True, records=1)),
    ("gzip: -1 headers", of_body(record(headers=b"\1"), codec=GZIP), DEFAULT, WRONG),
    ("gzip: a header without a name", of_body(record(headers=b"\2\1\1"), codec=GZIP), DEFAULT, WRONG),
    ("gzip: more records than counted", of_body(FIVE, 4, GZIP), DEFAULT, WRONG),
    ("gzip: fewer records than counted", of_body(FIVE, 6, GZIP), DEFAULT, WRONG),
    ("gzip: a header whose name is not text, rewritten", of_body(record(headers=b"\2\2\xff\1"), codec=GZIP), PLAIN_TOPIC,
     Stored(rewritten=True, records=1)),
]  # fmt: skip

COMPRESSED: list[Row] = [
    ("gzip garbage", of_body(FIVE, 5, GZIP, b"garbage"), DEFAULT, FAILED),
    ("gzip of nothing", of_body(FIVE, 5, GZIP, b""), DEFAULT, FAILED),
    ("snappy garbage", of_body(FIVE, 5, SNAPPY, b"garbage"), DEFAULT, FAILED),
    ("lz4 garbage", of_body(FIVE, 5, LZ4, b"garbage"), DEFAULT, FAILED),
    ("lz4 with linked blocks", of_body(FIVE, 5, LZ4, bytes(cramjam.lz4.compress(FIVE))), DEFAULT, FAILED),
    ("zstd garbage", of_body(FIVE, 5, ZSTD, b"garbage"), DEFAULT, FAILED),
    ("zstd of nothing", of_body(FIVE, 5, ZSTD, b""), DEFAULT, WRONG),
    ("two members of gzip", of_body(FIVE, 5, GZIP, compress(GZIP, FIVE[:20]) + compress(GZIP, FIVE[20:])), DEFAULT,
     Stored(attributes=GZIP, records=5)),
    ("the count before the codec's data", of_body(FIVE, 5, GZIP, b"garbage", records_count=4), DEFAULT, WRONG),
]  # fmt: skip

TIMES: list[Row] = [
    ("two hours ahead", batch((0, 2 * HOUR, 0)), DEFAULT, timed(1)),
    ("all two hours ahead", batch((0, 0), base=NOW + 2 * HOUR), DEFAULT, timed(0, 1)),
    ("an hour ahead", batch((0, 0, HOUR)), DEFAULT, Stored(NOW + HOUR)),
    ("an hour and 1 ms ahead", batch((0, 0, HOUR + 1)), DEFAULT, timed(2)),
    ("five seconds old", batch((0, -5000, 0)), STRICT_TIME, timed(1)),
    ("a second old", batch((0, -1000, 0)), STRICT_TIME, TAKEN),
    ("no timestamp", batch((0, 0, 0), base=-1), STRICT_TIME, Stored(-1)),
    ("no timestamp, and a negative one", batch((0, -4, 0), base=-1), STRICT_TIME, timed(1)),
    ("negative timestamps are stored as none", batch((0, 0, 0), base=-1000), DEFAULT, Stored(-1, 0, True)),
    ("the largest timestamp", batch(base=FAR), DEFAULT, timed(0)),
    ("beyond the largest timestamp", altered(batch((0, 5), base=0), base_timestamp=FAR), DEFAULT, timed(0, 1)),
    ("the smallest timestamp", batch(base=-FAR - 1), DEFAULT, timed(0)),
    ("a wrong max timestamp is corrected", altered(GOOD, max_timestamp=5), DEFAULT, Stored(rewritten=True)),
    ("the bad timestamp of a later record before its bad header", altered(batch((0, 2 * HOUR)), records_count=1), DEFAULT,
     WRONG),
    ("LogAppendTime's bit goes", altered(GOOD, attributes=LOG_APPEND_TIME), DEFAULT, Stored(rewritten=True)),
    ("LogAppendTime's bit without a time", altered(batch((0, 0), base=-1), attributes=LOG_APPEND_TIME), DEFAULT,
     timed(0, 1)),
    ("LogAppendTime's bit with a time out of range", altered(GOOD, attributes=LOG_APPEND_TIME, max_timestamp=NOW + 2 * HOUR),
     DEFAULT, timed(0, 1, 2)),
    ("LogAppendTime's bit makes the max timestamp that of all",
     altered(batch((5, 3, 1)), attributes=LOG_APPEND_TIME, max_timestamp=NOW), DEFAULT, Stored(NOW, 0, True)),
    ("on a topic with LogAppendTime", GOOD, APPEND_TIME, Stored(NOW, LOG_APPEND_TIME, True)),
    ("two hours ahead, on a topic with LogAppendTime", batch((0, 2 * HOUR, 0)), APPEND_TIME,
     Stored(NOW, LOG_APPEND_TIME, True)),
    ("LogAppendTime's bit on a topic with LogAppendTime", altered(GOOD, attributes=LOG_APPEND_TIME), APPEND_TIME,
     timed(0, 1, 2)),
    ("gzip, two hours ahead", batch((0, 2 * HOUR), compression=GZIP), DEFAULT, timed(1)),
    ("gzip, on a topic with LogAppendTime", batch((0, 0, 0), compression=GZIP), APPEND_TIME,
     Stored(NOW, GZIP | LOG_APPEND_TIME, True)),
    ("negative timestamps, to be rewritten", batch((0, 0), base=-2), GZIP_TOPIC, FAILED),
    ("a negative timestamp, to be rewritten", batch((0, -2), base=0), GZIP_TOPIC, FAILED),
    ("no timestamp, to be rewritten", batch((0, 0, 0), base=-1), GZIP_TOPIC, Stored(-1, GZIP, True)),
    ("LogAppendTime's bit, to be rewritten", altered(batch((5, 3, 1)), attributes=LOG_APPEND_TIME), GZIP_TOPIC,
     Stored(NOW + 5, GZIP, True)),
    ("rewritten on a topic with LogAppendTime", GOOD, APPEND_TIME_GZIP, Stored(NOW, GZIP | LOG_APPEND_TIME, True)),
]  # fmt: skip

TOPICS: list[Row] = [
    ("keys on a compacted topic", GOOD, COMPACTED, TAKEN),
    ("an empty key is a key", batch((0, 0, 0), keys=b""), COMPACTED, TAKEN),
    ("no key on a compacted topic", batch((0, 0, 0), keys=[b"k", None, None]), COMPACTED, unkeyed(1, 2)),
    ("gzip: no key on a compacted topic", batch((0, 0), keys=None, compression=GZIP), COMPACTED, unkeyed(0, 1)),
    ("no key on a compacted topic of gzip", batch((0, 0), keys=None), COMPACTED_GZIP, unkeyed(0, 1)),
    ("no key, and a timestamp out of range", batch((0, 2 * HOUR, 0), keys=[None, b"k", b"k"]), COMPACTED, timed(0, 1)),
    ("both on the same record: the key is named", batch((2 * HOUR,), keys=None), COMPACTED, unkeyed(0)),
    ("too large", batch(size=600), SMALL_PLAIN, Response(TOO_LARGE)),
    ("too large when decompressed", batch((0, 0), size=400, compression=GZIP), SMALL_PLAIN, Response(TOO_LARGE)),
    ("timestamps before the decompressed size", batch((0, 2 * HOUR), size=400, compression=GZIP), SMALL_PLAIN, timed(1)),
    ("larger than a segment", batch((0, 0), size=600_000), SEGMENTS, Response(LIST_TOO_LARGE)),
    ("the CRC before the segment's size", altered(batch((0, 0), size=600_000), crc=1), SEGMENTS, Response(CORRUPT)),
    ("timestamps before the segment's size", batch((0, 2 * HOUR), size=600_000), SEGMENTS, timed(1)),
    ("the count before the segment's size", altered(batch((0, 0), size=600_000), records_count=1, last_offset_delta=0),
     SEGMENTS, WRONG),
    ("compressed, it fits a segment", batch((0, 0, 0), size=600_000, compression=GZIP), SEGMENTS, Stored(attributes=GZIP)),
    ("uncompressed, it does not fit", batch((0, 0), size=600_000, compression=GZIP), PLAIN_SEGMENTS, Response(LIST_TOO_LARGE)),
    ("gzip on a topic of gzip stays", batch((0, 0, 0), compression=GZIP), GZIP_TOPIC, Stored(attributes=GZIP)),
    ("zstd on a topic of gzip", batch((5, 3, 1), compression=ZSTD), GZIP_TOPIC, Stored(NOW + 5, GZIP, True)),
    ("an idempotent batch is rewritten", batch((0, 0, 0), producer_id=9, producer_epoch=0, base_sequence=4), GZIP_TOPIC,
     Stored(attributes=GZIP, rewritten=True)),
    ("a transactional batch is rewritten",
     batch((0, 0, 0), producer_id=9, producer_epoch=0, base_sequence=4, transactional=True), GZIP_TOPIC,
     Stored(attributes=GZIP | TRANSACTIONAL, rewritten=True)),
    ("unknown attributes are not rewritten", altered(GOOD, attributes=0x5F40 & ~0x1000), GZIP_TOPIC,
     Stored(attributes=GZIP, rewritten=True)),
    ("a producer id without an epoch, to be rewritten", batch(producer_id=9, producer_epoch=-1, base_sequence=0),
     GZIP_TOPIC, FAILED),
    ("producer id -2, to be rewritten", batch(producer_id=-2, producer_epoch=3), GZIP_TOPIC, FAILED),
]  # fmt: skip

RESPONSES = [*ONE_BATCH, *HEADERS, *RECORDS, *COMPRESSED, *TIMES, *TOPICS]


def checked(data: bytes | None, policy: RecordPolicy, version: int = 9, full: bool = True) -> Checked | RecordReject:
    return check(memoryview(data) if data is not None else None, policy, NOW, version, full)


def is_sound(found: Checked, data: bytes, policy: RecordPolicy) -> None:
    """Checks an accepted batch: its header must fit its bytes. If the broker did not rewrite the batch, its bytes must be
    unchanged."""
    header = read_header(found.batch)
    assert found.header == header
    assert header.size == len(found.batch)
    assert header.crc == crc_of(found.batch)
    assert (header.last_offset_delta + 1, header.max_timestamp) == (header.records_count, found.max_timestamp)
    assert found.log_append_time == (NOW if policy.append_time else -1)
    assert header.is_log_append_time == policy.append_time
    if not found.rewritten:
        assert bytes(found.batch) == data[: len(found.batch)]


@pytest.mark.parametrize(("data", "policy", "expected"), [row[1:] for row in RESPONSES], ids=[row[0] for row in RESPONSES])
def test_a17_kafka_responds(data: bytes | None, policy: RecordPolicy, expected: Response | Stored) -> None:
    found = checked(data, policy)
    if isinstance(expected, Response):
        assert isinstance(found, RecordReject)
        named = [index for index, _ in found.record_errors]
        message = found.message is not None
        assert Response(found.code, found.log_start_known, named, message) == expected._replace(records=list(expected.records))
        return
    assert isinstance(found, Checked), found
    assert data is not None
    is_sound(found, data, policy)
    assert (found.max_timestamp, found.header.attributes, found.rewritten) == expected[:3]
    if expected.records >= 0:
        assert len(list(iter_records(found.batch))) == expected.records


BEFORE_VERSION_7 = [
    ("zstd", IN_ZSTD, Response(UNSUPPORTED)),
    ("zstd before the number of batches", IN_ZSTD + IN_ZSTD, Response(UNSUPPORTED)),
    ("zstd before the CRC", altered(IN_ZSTD, crc=1), Response(UNSUPPORTED)),
    ("zstd before the base offset", altered(IN_ZSTD, base_offset=3), Response(UNSUPPORTED)),
    ("magic before zstd", altered(IN_ZSTD, magic=1), NO_BATCH),
    ("a fifth codec", altered(GOOD, attributes=5), FAILED_EARLY),
    ("a fifth codec of two batches", altered(GOOD, attributes=5) * 2, FAILED_EARLY),
]


@pytest.mark.parametrize(("data", "expected"), [r[1:] for r in BEFORE_VERSION_7], ids=[r[0] for r in BEFORE_VERSION_7])
def test_a17_versions_before_7_do_not_know_zstd(data: bytes, expected: Response) -> None:
    found = checked(data, DEFAULT, version=6)
    assert isinstance(found, RecordReject)
    assert (found.code, found.log_start_known) == expected[:2]
    assert isinstance(checked(IN_ZSTD, DEFAULT, version=7), Checked)


# Every batch of every scenario in the recording of Kafka 4.3.1

CODES = (CORRUPT, TOO_LARGE, LIST_TOO_LARGE, BAD_TIME, UNSUPPORTED, INVALID)
SCENARIOS = [s for s in load() if any(row["step"]["op"] == "produce" for row in s.steps)]


def resolved(step: dict[str, Any]) -> dict[str, Any]:
    """Replaces references by numbers: each reference names a producer id or an epoch of an earlier step."""
    return {name: (7 if name == "pid" else 0) if str(v).startswith("$") else v for name, v in step.items()}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a17_the_recording_of_kafka(scenario: Scenario) -> None:
    policies: dict[str, RecordPolicy] = {}
    for row in scenario.steps:
        step, observed = resolved(row["step"]), row["observed"]
        topic = step.get("topic", "T")
        if step["op"] == "create_topic":
            overrides = {name: str(value) for name, value in step.get("configs", {}).items()}
            if observed["error"] == "0 NONE":
                policies[topic] = RecordPolicy.from_configs(topic, TopicConfigs(BrokerConfigs({}), overrides))
        if step["op"] != "produce" or "error" not in observed:
            continue
        timestamp = step.get("ts", NOW + step.get("ts_offset_ms", 0))
        data = record_data(step, timestamp)
        found = checked(data, policies.get(topic, DEFAULT), step.get("v", 9))
        code = int(observed["error"].split()[0])
        if code not in CODES:
            assert isinstance(found, Checked), (step, found)
            continue
        assert isinstance(found, RecordReject), (step, observed)
        assert f"{int(found.code)} {error_name(found.code)}" == observed["error"]
        assert found.log_start_known == (observed.get("log_start_offset", -1) >= 0) or step.get("v", 9) < 5
        assert [i for i, _ in found.record_errors] == [e["i"] for e in observed.get("record_errors", [])]
        assert (found.message is not None) == ("message" in observed)


def test_the_recording_has_every_code() -> None:
    seen = {row["observed"].get("error", "") for s in SCENARIOS for row in s.steps if row["step"]["op"] == "produce"}
    assert {int(error.split()[0]) for error in seen if error} >= {CORRUPT, TOO_LARGE, BAD_TIME, UNSUPPORTED, INVALID}


# The texts of messages, which clients show to people


def test_a17_the_texts_are_kafkas() -> None:
    found = checked(batch((0, 2 * HOUR)), DEFAULT)
    assert isinstance(found, RecordReject)
    assert found.message == "One or more records have been rejected due to invalid timestamp"
    assert found.record_errors == [
        (1, f"Timestamp {NOW + 2 * HOUR} of message with offset 1 is out of range. The timestamp should be within "
         f"[{NOW - FAR}, {NOW + HOUR}]")
    ]  # fmt: skip
    found = checked(batch((0,) * 4, keys=None), COMPACTED)
    assert isinstance(found, RecordReject)
    text = "Compacted topic cannot accept message without key in topic partition orders-0"
    assert [shown for _, shown in found.record_errors] == [text] * 4
    assert found.message is not None
    assert "due to 4 record errors in total, and only showing the first three errors at most" in found.message
    assert re.findall(r"batchIndex=(\d)", found.message) == ["0", "1", "2"]


def test_a17_the_trace_names_the_corrupt_part() -> None:
    found = checked(altered(GOOD, batch_length=10), DEFAULT)
    assert isinstance(found, RecordReject)
    assert found.message == "Record size 10 is less than the minimum record overhead (14)"


# The implementation


@CODECS
def test_a_batch_in_order_is_not_copied(codec: int) -> None:
    data = memoryview(batch((0, 0), compression=codec))
    found = check(data, DEFAULT, NOW, 9, True)
    assert isinstance(found, Checked)
    assert found.batch is data
    cut = check(memoryview(bytes(data) + b"rest"), DEFAULT, NOW, 9, True)
    assert isinstance(cut, Checked)
    assert not cut.rewritten
    assert bytes(cut.batch) == bytes(data)


def test_a_rewritten_batch_is_a_copy() -> None:
    data = bytearray(altered(GOOD, max_timestamp=5))
    before = bytes(data)
    found = check(memoryview(data), DEFAULT, NOW, 9, True)
    assert isinstance(found, Checked)
    assert found.rewritten
    assert data == before


@CODECS
@pytest.mark.parametrize("topic", ["uncompressed", *NAMES[1:]])
def test_a_topic_stores_its_own_compression(codec: int, topic: str) -> None:
    records = [Record(i, 10 - i, b"k%d" % i, None if i == 1 else b"v", (("h", b"x"), ("h", None))) for i in range(4)]
    data = build_batch(records, base_timestamp=NOW, producer_id=9, producer_epoch=2, base_sequence=5, compression=codec)
    found = checked(data, RecordPolicy("orders-0", compression=topic))
    assert isinstance(found, Checked)
    header = found.header
    assert header.compression == (0 if topic == "uncompressed" else NAMES.index(topic))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)
    assert found.max_timestamp == header.max_timestamp == NOW + 10
    read = [
        (header.base_timestamp + r.timestamp_delta, r.offset_delta, r.key, r.value, r.headers)
        for r in iter_records(found.batch)
    ]
    assert read == [(NOW + r.timestamp_delta, r.offset_delta, r.key, r.value, r.headers) for r in records]
    if found.rewritten:
        assert header.base_timestamp == NOW + 10  # as in Kafka, the base timestamp is the time of the first record


TRUSTED = [
    ("more records than counted", altered(GOOD, records_count=2, last_offset_delta=1), DEFAULT),
    ("damaged records", of_body(b"damaged"), DEFAULT),
    ("damaged compression", of_body(FIVE, 5, GZIP, b"garbage"), DEFAULT),
    ("no key on a compacted topic", batch((0, 0), keys=None), COMPACTED),
]


@pytest.mark.parametrize(("data", "policy"), [row[1:] for row in TRUSTED], ids=[row[0] for row in TRUSTED])
def test_only_the_header_is_checked_on_request(data: bytes, policy: RecordPolicy) -> None:
    found = checked(data, policy, full=False)
    assert isinstance(found, Checked)
    assert not found.rewritten
    assert isinstance(checked(data, policy), RecordReject)


BY_THE_HEADER = [
    *[row for row in HEADERS + ONE_BATCH if isinstance(row[3], Response)],
    ("two hours ahead", batch((0, 2 * HOUR, 0)), DEFAULT, timed(1)),
    ("larger than a segment", batch((0, 0), size=600_000), SEGMENTS, Response(LIST_TOO_LARGE)),
    ("damaged, on a topic that rewrites", of_body(b"damaged"), GZIP_TOPIC, WRONG),
]


@pytest.mark.parametrize(
    ("data", "policy", "expected"), [row[1:] for row in BY_THE_HEADER], ids=[row[0] for row in BY_THE_HEADER]
)
def test_a17_the_header_is_always_checked(data: bytes | None, policy: RecordPolicy, expected: Response) -> None:
    found = checked(data, policy, full=False)
    assert isinstance(found, RecordReject)
    assert (found.code, found.log_start_known) == expected[:2]


def test_append_time_is_set_without_reading_the_records() -> None:
    found = checked(batch((0, -5000)), APPEND_TIME, full=False)
    assert isinstance(found, Checked)
    assert (found.max_timestamp, found.log_append_time, found.rewritten) == (NOW, NOW, True)
    is_sound(found, b"", APPEND_TIME)


def test_a_bomb_is_refused_within_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decompressed, the batch is a thousand times larger. Kafka reads it in pieces. wirebroker refuses it at a limit."""
    bomb = of_body(b"", 1, GZIP, compress(GZIP, bytes(1 << 20)) * 200)
    limit = 4 << 20
    for module in ("kafkawire.batches", "wirebroker.core.record_checks"):  # a compiled module keeps its own copy
        monkeypatch.setattr(f"{module}.DECOMPRESSED_LIMIT", limit)
    tracemalloc.start()
    found = checked(bomb, DEFAULT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found, RecordReject)
    assert (found.code, found.rule) == (TOO_LARGE, "unfolds_into_too_much")
    assert found.message == f"gzip data decompresses to more than {limit} bytes"
    assert peak < 3 * limit


def test_a_bomb_is_refused_by_default() -> None:
    found = checked(of_body(b"", 1, ZSTD, compress(ZSTD, bytes(1 << 20)) * 200), DEFAULT)
    assert isinstance(found, RecordReject)
    assert found.code == TOO_LARGE


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD], ids=NAMES[2:])
def test_without_its_codec_a_batch_is_judged_by_its_header(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch((0, 0), compression=codec)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    assert isinstance(checked(data, DEFAULT), Checked)
    stamped = checked(data, APPEND_TIME)
    assert isinstance(stamped, Checked)
    is_sound(stamped, data, APPEND_TIME)
    for unfit in (checked(data, GZIP_TOPIC), checked(GOOD, RecordPolicy("orders-0", compression=NAMES[codec]))):
        assert isinstance(unfit, RecordReject)
        assert unfit.code == UNSUPPORTED
        assert (unfit.message or "").endswith(how_to_install("codecs"))


def test_a12_a_batch_may_wrap_around_the_sequence() -> None:
    found = checked(batch((0,) * 4, producer_id=9, producer_epoch=0, base_sequence=2**31 - 2), DEFAULT)
    assert isinstance(found, Checked)
    assert found.header.last_sequence == 1


POLICIES = [DEFAULT, COMPACTED, APPEND_TIME, STRICT_TIME, PLAIN_TOPIC, GZIP_TOPIC, APPEND_TIME_GZIP, COMPACTED_GZIP]
LIES = st.fixed_dictionaries(
    {},
    optional={
        "attributes": st.integers(-(2**15), 2**15 - 1),
        "last_offset_delta": st.integers(-2, 5),
        "base_timestamp": st.integers(-(2**63), 2**63 - 1),
        "max_timestamp": st.integers(-(2**63), 2**63 - 1),
        "producer_id": st.integers(-2, 2),
        "producer_epoch": st.integers(-2, 2),
        "base_sequence": st.integers(-2, 2),
        "records_count": st.integers(-2, 5),
        "batch_length": st.integers(0, 200),
        "magic": st.integers(0, 3),
    },
)
UNLIMITED = RecordPolicy("orders-0", before_max_ms=FAR, after_max_ms=FAR)


@settings(max_examples=600)
@given(st.data())
def test_a17_any_bytes_pass_or_are_refused(data: st.DataObject) -> None:
    policy = data.draw(st.sampled_from([*POLICIES, UNLIMITED]))
    count, codec = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4]))
    body = bytearray()
    for i in range(count):
        delta = data.draw(st.sampled_from([0, 1, -1, 70]))
        key = data.draw(st.sampled_from([None, b"", b"k"]))
        write_record(body, Record(i, delta, key, b"v" * data.draw(st.integers(0, 80)), (("h", None),) * (i % 2)))
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=2)):
        body[place] = data.draw(st.integers(0, 255))
    made = of_body(bytes(body), count, codec)
    made = altered(made, **data.draw(LIES)) if data.draw(st.booleans()) else made
    made = made[: data.draw(st.integers(0, len(made)))] if data.draw(st.integers(0, 9)) == 0 else made
    found = checked(made, policy, data.draw(st.sampled_from([3, 6, 9])))
    if isinstance(found, Checked):
        is_sound(found, made, policy)
    else:
        assert error_name(found.code).isupper()


@settings(max_examples=300)
@given(st.binary(max_size=150), st.sampled_from(POLICIES), st.booleans())
def test_a17_random_bytes_are_refused(raw: bytes, policy: RecordPolicy, full: bool) -> None:
    assert isinstance(checked(raw, policy, full=full), RecordReject)


@settings(max_examples=200)
@given(st.integers(0, 8 * 200), st.sampled_from(range(5)))
def test_a17_a_flipped_bit_is_noticed(bit: int, codec: int) -> None:
    """Every flipped bit is noticed. The leader epoch is an exception, because the broker itself writes it, and the CRC does not
    cover it.
    """
    made = bytearray(batch((0, 0, 0), size=40, compression=codec, producer_id=7, producer_epoch=0, base_sequence=0))
    bit %= 8 * len(made)
    made[bit // 8] ^= 1 << bit % 8
    found = checked(bytes(made), DEFAULT)
    assert isinstance(found, Checked) == (12 <= bit // 8 < 16)


def test_the_policy_of_a_topic() -> None:
    overrides = {
        "max.message.bytes": "5000", "segment.bytes": "2000000", "segment.ms": "7", "cleanup.policy": "delete,compact",
        "message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "11",
        "message.timestamp.after.max.ms": "12", "compression.type": "zstd", "compression.zstd.level": "5",
    }  # fmt: skip
    assert RecordPolicy.from_configs("orders-3", TopicConfigs(BrokerConfigs({}), overrides)) == RecordPolicy(
        "orders-3", 5000, 2_000_000, 7, True, True, 11, 12, "zstd", 5
    )
    assert RecordPolicy.from_configs("", TopicConfigs(BrokerConfigs({}), {})) == RecordPolicy()


def test_the_level_of_a_topic_is_used() -> None:
    noise = random.Random(4)
    value = bytes(noise.choices(b"abcdefgh", k=20_000))
    data = build_batch([Record(0, 0, b"k", value)], base_timestamp=NOW)
    sizes = [len(found.batch) for level in (1, 9)
             if isinstance(found := checked(data, GZIP_TOPIC._replace(level=level)), Checked)]  # fmt: skip
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]
