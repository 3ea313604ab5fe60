"""Record batches: header, CRC, records, markers, and the effects of damage."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.memory_records
import kafka.record.default_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batches import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    Record,
    batch_spans,
    build_batch,
    crc_of,
    end_txn_marker,
    iter_batches,
    iter_records,
    next_batch_size,
    parse_records,
    patch_timestamps,
    read_header,
    read_marker,
    seal,
    write_record,
)
from kafkawire.compression import GZIP, NAMES, TooLarge, compress
from kafkawire.errors import ProtocolError
from kafkawire.record_columns import Walked
from kafkawire.record_walk import walk_in_order, walk_records
from kafkawire.varints import read_varint, write_varint
from wirekit import NOW, batch

TEXT = st.one_of(st.none(), st.binary(max_size=40))
RECORDS = st.lists(
    st.tuples(st.integers(-1000, 100_000), TEXT, TEXT, st.lists(st.tuples(st.text(max_size=5), TEXT), max_size=2)),
    min_size=1,
    max_size=20,
).map(lambda rows: [Record(i, delta, key, value, tuple(headers)) for i, (delta, key, value, headers) in enumerate(rows)])


@given(RECORDS, st.sampled_from(range(5)))
def test_a2_what_is_built_is_read_back(records: list[Record], codec: int) -> None:
    made = build_batch(records, base_timestamp=NOW, producer_id=5, producer_epoch=1, base_sequence=9, compression=codec)
    header = read_header(made)
    assert header.size == len(made)
    assert header.crc == crc_of(made)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 9)
    assert header.max_timestamp == NOW + max(r.timestamp_delta for r in records)
    assert list(iter_records(made)) == records


# Without additional packages, kafka-python reads only gzip and uncompressed batches. aiokafka reads all codecs.
READERS = [
    *[("kafka-python", kafka.record.MemoryRecords, kafka.record.default_records, codec) for codec in (0, 1)],
    *[("aiokafka", aiokafka.record.memory_records.MemoryRecords, aiokafka.record.default_records, c) for c in range(5)],
]
READER_IDS = [f"{name}-{NAMES[codec]}" for name, _, _, codec in READERS]


@pytest.mark.parametrize(("reader", "codec"), [(r[1], r[3]) for r in READERS], ids=READER_IDS)
def test_a2_clients_read_what_is_built(reader: Any, codec: int) -> None:
    records = [Record(i, i, b"k", b"v%d" % i, (("h", b"x"),)) for i in range(50)]
    made = build_batch(records, base_timestamp=NOW, producer_id=5, producer_epoch=0, base_sequence=0, compression=codec)
    read = reader(made).next_batch()
    assert read.validate_crc()
    assert [(r.timestamp - NOW, r.key, r.value, list(r.headers)) for r in read] == [
        (r.timestamp_delta, r.key, r.value, list(r.headers)) for r in records
    ]


@pytest.mark.parametrize(("module", "codec"), [(r[2], r[3]) for r in READERS], ids=READER_IDS)
def test_a2_what_clients_build_is_read(module: Any, codec: int) -> None:
    builder = module.DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=False, producer_id=3, producer_epoch=1, base_sequence=7,
        batch_size=1 << 20,
    )  # fmt: skip
    for i in range(30):
        builder.append(i, NOW + i, b"k%d" % i, b"v" * i, [("h", b"1")])
    made = bytes(builder.build())
    header = read_header(made)
    assert header.crc == crc_of(made)
    assert [(r.offset_delta, r.timestamp_delta, r.key, r.value) for r in iter_records(made)] == [
        (i, i, b"k%d" % i, b"v" * i) for i in range(30)
    ]


@pytest.mark.parametrize(
    ("first", "count", "last"),
    [(0, 1, 0), (7, 3, 9), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 2, 0), (2**31 - 2, 4, 1), (-1, 4, -1), (-2, 4, -1)],
)
def test_a12_the_last_sequence_counts_modulo_two_to_the_31(first: int, count: int, last: int) -> None:
    assert read_header(batch(first, count, pid=1, epoch=0)).last_sequence == last


def test_a2_the_header_has_every_field_where_the_protocol_has_it() -> None:
    fields = (1, 91, 3, 2, 0xFEEDBEEF, 0x37, 5, 6, 7, 8, 9, 10, 11)
    raw = b"".join(
        number.to_bytes(size, "big") for number, size in zip(fields, (8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4), strict=True)
    )
    assert len(raw) == HEADER_SIZE
    header = read_header(b"--" + raw, 2)
    assert header == BatchHeader(*fields)
    assert (header.size, header.last_offset, header.last_sequence) == (103, 6, 15)
    assert (header.compression, header.is_transactional, header.is_control, header.is_log_append_time) == (7, True, True, False)


def test_a_header_cut_short_is_the_peers_mistake() -> None:
    with pytest.raises(ProtocolError, match="only 60 are left"):
        read_header(bytes(60))


def test_a_batch_has_records() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_flags_of_a_batch() -> None:
    header = read_header(batch(transactional=True, control=True, compression=GZIP, leader_epoch=4, base_offset=9))
    assert header.attributes == TRANSACTIONAL | CONTROL | GZIP
    assert (header.partition_leader_epoch, header.base_offset, header.last_offset) == (4, 9, 9)


@given(RECORDS)
def test_the_walk_finds_what_the_records_say(records: list[Record]) -> None:
    body = memoryview(build_batch(records, base_timestamp=NOW))[HEADER_SIZE:]
    deltas = [r.timestamp_delta for r in records]
    for _ in range(5):  # from the second walk on, a regex checks the records, with the same result
        found = walk_records(body, len(records))
        assert found == Walked(max(deltas), min(deltas), any(r.key is None for r in records))


def _uniform(count: int, deltas: list[int] | None = None) -> memoryview:
    records = [Record(i, deltas[i] if deltas else i % 60, b"key", b"x" * 100) for i in range(count)]
    return memoryview(build_batch(records, base_timestamp=NOW))[HEADER_SIZE:]


@pytest.mark.parametrize("count", [1, 16, 64, 65, 200, 9000])
def test_records_of_one_shape_are_walked_as_any(count: int) -> None:
    body = _uniform(count)
    for _ in range(5):
        assert walk_records(body, count) == Walked(min(count - 1, 59), 0, False)


@pytest.mark.parametrize("deltas", [[-3] * 16, [-3, 5] * 8, [100] * 16, [100, 200] * 8], ids=str)
def test_timestamps_of_records_of_one_shape(deltas: list[int]) -> None:
    for _ in range(5):
        assert walk_records(_uniform(16, deltas), 16) == Walked(max(deltas), min(deltas), False)


@pytest.mark.parametrize("count", [15, 17])
def test_a17_a_wrong_count_is_damage(count: int) -> None:
    for _ in range(5):
        with pytest.raises(ProtocolError):
            walk_records(_uniform(16), count)


@pytest.mark.parametrize(
    ("count", "record", "places"),
    [(16, 7, [0, 1, 5, 9, 10, -1]), (160, 7, [0, 1, 5, 9, 10, -1]), (160, 70, [0, 1, 6, 10, 11, -1])],
    ids=["one shape", "the first of two shapes", "the second of two shapes"],
)
def test_a17_a_flipped_byte_inside_a_run_of_alike_records_is_noticed(count: int, record: int, places: list[int]) -> None:
    """`places` has positions of bytes in a record: the lengths of the record, the key and the value, the header count, and
    other bytes."""
    body = _uniform(count)
    for _ in range(5):
        walk_records(body, count)
    size = 112
    start = record * size + max(record - 64, 0)
    end = start + size + (record >= 64)
    for place in places:
        damaged = bytearray(body)
        damaged[end + place if place < 0 else start + place] ^= 0x04
        with pytest.raises(ProtocolError):
            walk_records(memoryview(damaged), count)


@pytest.mark.parametrize("swapped", [(7, 8), (63, 64), (70, 71), (8000, 8190), (8500, 8501)], ids=str)
def test_a17_wrong_numbers_inside_a_run_of_alike_records_are_noticed(swapped: tuple[int, int]) -> None:
    numbers = list(range(9000))
    for _ in range(5):
        assert walk_in_order(_uniform(9000), 9000)[1]
    first, second = swapped
    numbers[first], numbers[second] = second, first
    body = bytearray()
    for number in numbers:
        write_record(body, Record(number, number % 60, b"key", b"x" * 100))
    assert not walk_in_order(memoryview(body), 9000)[1]


@settings(max_examples=300)
@given(st.data())
def test_damaged_records_raise_nothing_but_protocol_errors(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(range(5)))
    records = data.draw(RECORDS)
    made = bytearray(build_batch(records, base_timestamp=NOW, compression=codec))
    for place in data.draw(st.lists(st.integers(HEADER_SIZE, len(made) - 1), min_size=1, max_size=4)):
        made[place] = data.draw(st.integers(0, 255))
    try:
        list(iter_records(made, limit=1 << 20))
        walk_records(memoryview(made)[HEADER_SIZE:], len(records))
    except ProtocolError:
        pass


def slow_walk(body: bytes, count: int) -> Walked | None:
    """A slow model of `walk_records`. Returns None if the records are invalid."""
    deltas, keyless, pos = [], False, 0
    try:
        for _ in range(count):
            size, at = read_varint(body, pos)
            stop = at + size
            if size < 0 or stop > len(body):
                return None
            delta, at = read_varint(body, at + 1)
            _, at = read_varint(body, at)
            key, at = read_varint(body, at)
            value, at = read_varint(body, at + max(key, 0))
            headers, at = read_varint(body, at + max(value, 0))
            if headers < 0:
                return None
            for _ in range(headers):
                name, at = read_varint(body, at)
                if name < 0:
                    return None
                text, at = read_varint(body, at + name)
                at += max(text, 0)
                if at > stop:
                    return None
            if at != stop:
                return None
            deltas.append(delta)
            keyless = keyless or key < 0
            pos = stop
    except (IndexError, ProtocolError):
        return None
    return Walked(max(deltas), min(deltas), keyless) if pos == len(body) else None


LENGTHS = st.sampled_from([None, 0, 1, 5, 5, 5, 50, 62, 63, 64, 120, 127, 128, 8191, 8192, 9000])
DELTAS = st.sampled_from([0, 0, 0, 1, 63, 64, 8191, 8192, 100_000, -1, -70])


def body_of(rows: list[Any]) -> bytearray:
    records = [
        Record(
            i, delta, None if key is None else b"k" * key, None if value is None else b"v" * value,
            (("name", b"x"),) if headers == 9 else (),
        )
        for i, (delta, key, value, headers) in enumerate(rows)
    ]  # fmt: skip
    return bytearray(memoryview(build_batch(records, base_timestamp=NOW))[HEADER_SIZE:])


def quick_walk(body: bytearray, count: int) -> Walked | None:
    try:
        return walk_records(memoryview(body), count)
    except ProtocolError:
        return None


@settings(max_examples=300)
@given(st.lists(st.tuples(DELTAS, LENGTHS, LENGTHS, st.integers(0, 9)), min_size=1, max_size=80))
def test_the_quick_walk_finds_what_a_slow_one_does(rows: list[Any]) -> None:
    body = body_of(rows)
    assert quick_walk(body, len(rows)) == slow_walk(bytes(body), len(rows)) is not None


SHORT = st.sampled_from([None, 0, 1, 2])


@settings(max_examples=1500)
@given(st.lists(st.tuples(DELTAS, SHORT, SHORT, st.integers(0, 9)), min_size=2, max_size=4), st.data())
def test_the_quick_walk_finds_the_damage_that_a_slow_one_does(rows: list[Any], data: st.DataObject) -> None:
    body = body_of(rows)
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= 1 << data.draw(st.integers(0, 7))
    assert quick_walk(body, len(rows)) == slow_walk(bytes(body), len(rows))


@pytest.fixture(scope="module")
def in_small_pieces() -> Iterator[None]:
    """Makes the window small. A body of a few hundred bytes is then walked in pieces, like a body of many megabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafkawire.record_walk._WINDOW", 100)
        yield


@settings(max_examples=300)
@given(st.lists(st.tuples(DELTAS, LENGTHS, LENGTHS, st.integers(0, 9)), min_size=1, max_size=80))
def test_a_large_body_is_walked_in_pieces(in_small_pieces: None, rows: list[Any]) -> None:
    test_the_quick_walk_finds_what_a_slow_one_does.hypothesis.inner_test(rows)


@settings(max_examples=1000)
@given(st.lists(st.tuples(DELTAS, SHORT, SHORT, st.integers(0, 9)), min_size=2, max_size=40), st.data())
def test_damage_to_a_large_body_is_found_in_any_piece(in_small_pieces: None, rows: list[Any], data: st.DataObject) -> None:
    test_the_quick_walk_finds_the_damage_that_a_slow_one_does.hypothesis.inner_test(rows, data)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\0" * 8 + b"\0\0\0\x0a" + b"\0" * 60, r"Record size 10 is less than the minimum record overhead \(14\)"),
        (b"\0" * 8 + b"\0\0\0\x40" + b"\0" * 4 + b"\3" + b"\0" * 60, "Invalid magic found in record: 3"),
    ],
)
def test_a17_what_kafka_calls_corrupt(raw: bytes, message: str) -> None:
    with pytest.raises(CorruptBatch, match=message):
        list(iter_batches(raw))


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 17, 50])
def test_a_truncated_last_batch_ends_the_data(cut: int) -> None:
    whole = batch(count=3)
    assert [bytes(b) for b in iter_batches(whole + whole[:cut])] == [whole]
    assert batch_spans(memoryview(whole + whole[:cut]), 100) == [(0, 2, 0, len(whole))]


@pytest.mark.parametrize(("enough", "found"), [(0, 1), (1, 2), (3, 2), (4, 3), (7, 4), (100, 4)])
def test_spans_end_with_the_first_batch_that_is_far_enough(enough: int, found: int) -> None:
    parts = [build_batch([Record(i, 0, None, b"v" * base) for i in range(3)], base_offset=base) for base in (0, 3, 6, 9)]
    stops = list(accumulate(map(len, parts)))
    spans = [(base, base + 2, stop - len(part), stop) for base, part, stop in zip((0, 3, 6, 9), parts, stops, strict=True)]
    assert batch_spans(memoryview(b"".join(parts)), enough) == spans[:found]


@pytest.mark.parametrize(("size", "found"), [(11, None), (16, None), (17, 32)], ids=["no length", "no magic", "just enough"])
def test_how_much_is_needed_to_tell_the_next_size(size: int, found: int | None) -> None:
    raw = bytes(8) + struct.pack(">i", 20) + bytes(4) + b"\2"
    assert next_batch_size(memoryview(raw)[:size], 0) == found


@given(st.binary(max_size=200))
def test_record_data_of_any_bytes_is_batches_or_corrupt(raw: bytes) -> None:
    try:
        found = list(iter_batches(raw))
        spans = batch_spans(memoryview(raw), 1 << 63)
    except CorruptBatch:
        return
    assert raw.startswith(b"".join(found))
    assert [raw[each.start : each.stop] for each in spans] == found[: len(spans)]


def test_a_header_name_that_is_no_text_is_read_as_java_reads_it() -> None:
    made = build_batch([Record(0, 0, None, None, (("name", b"x"),))])
    for name, read in ((b"\xffame", "\ufffdame"), (b"\xed\xa0\x80e", "\ufffde")):
        (record,) = iter_records(made.replace(b"name", name))
        assert record.headers == ((read, b"x"),)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("size beyond the end", b"\x20" + bytes(7)),
        ("negative size", b"\x01" + bytes(7)),
        ("shorter than announced", b"\x10" + bytes(8)),
        ("key beyond the end", b"\x0c\0\0\0\x7e\0\0"),
        ("negative header count", b"\x0c\0\0\0\0\0\1"),
        ("more headers than bytes", b"\x0c\0\0\0\0\0\x7e"),
        ("header without a name", b"\x10\0\0\0\0\0\2\1\0"),
        ("endless varint", b"\x1a\0" + b"\x80" * 11 + b"\0"),
        ("another record behind", b"\x0c" + bytes(6) + b"\x0c" + bytes(6)),
        ("nothing", b""),
    ],
)
def test_a_record_that_is_none(name: str, raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(parse_records(memoryview(raw), 1))


def test_a_batch_that_unfolds_beyond_the_limit_is_refused_and_takes_no_memory() -> None:
    one_of_many = compress(GZIP, bytes(1 << 20))  # the decompressed data is a thousand times as large
    header = read_header(batch())._replace(attributes=GZIP)
    bomb = seal(header, one_of_many * 200)
    assert len(bomb) * 900 < 200 << 20
    tracemalloc.start()
    with pytest.raises(TooLarge):
        iter_records(bomb, limit=4 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20


@pytest.mark.parametrize("append_time", [True, False])
@pytest.mark.parametrize("before", [0, LOG_APPEND_TIME, TRANSACTIONAL | LOG_APPEND_TIME | 0x0100])
def test_timestamps_are_patched_and_the_crc_with_them(append_time: bool, before: int) -> None:
    plain = read_header(batch(count=2, timestamp=5))
    made = bytearray(seal(plain._replace(attributes=before), batch(count=2, timestamp=5)[HEADER_SIZE:]))
    untouched = bytes(made[HEADER_SIZE:])
    patch_timestamps(made, NOW, append_time=append_time)
    header = read_header(made)
    assert (header.max_timestamp, header.is_log_append_time) == (NOW, append_time)
    assert header.attributes & ~LOG_APPEND_TIME == before & TRANSACTIONAL  # Kafka drops unknown bits
    assert header.crc == crc_of(made)
    assert header._replace(crc=0, attributes=0, max_timestamp=0) == plain._replace(crc=0, max_timestamp=0)
    assert made[HEADER_SIZE:] == untouched


@pytest.mark.parametrize("commit", [True, False])
def test_markers(commit: bool) -> None:
    made = end_txn_marker(commit, producer_id=4, producer_epoch=2, coordinator_epoch=9, timestamp=NOW)
    header = read_header(made)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    marker = read_marker(next(iter_records(made)))
    assert marker is not None
    assert (marker.commit, marker.coordinator_epoch) == (commit, 9)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(number: int) -> None:
    out = bytearray()
    write_varint(out, number)
    assert read_varint(out, 0) == (number, len(out))
