"""Record batches: header, CRC, records, markers, and what damage does."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.memory_records
import kafka.record.default_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batches import (
    HEADER_SIZE,
    CorruptBatch,
    Record,
    build_batch,
    crc_of,
    end_txn_marker,
    iter_batches,
    iter_records,
    read_header,
    read_marker,
    stamp_append_time,
)
from kafkawire.compression import NAMES, CodecMissing, TooLarge, compress, decompress
from kafkawire.errors import ProtocolError
from kafkawire.record_walk import Walked, walk_records
from kafkawire.varints import read_varint, write_varint
from wirekit import NOW, batch

TEXT = st.one_of(st.none(), st.binary(max_size=40))
RECORDS = st.lists(
    st.tuples(st.integers(-1000, 100_000), TEXT, TEXT, st.lists(st.tuples(st.text(max_size=5), TEXT), max_size=2)),
    min_size=1,
    max_size=20,
).map(
    lambda rows: [Record(i, delta, key, value, tuple(headers)) for i, (delta, key, value, headers) in enumerate(rows)]
)


@given(RECORDS, st.sampled_from(range(5)))
def test_a2_what_is_built_is_read_back(records: list[Record], codec: int) -> None:
    made = build_batch(records, base_timestamp=NOW, producer_id=5, producer_epoch=1, base_sequence=9, compression=codec)
    header = read_header(made)
    assert header.size == len(made)
    assert header.crc == crc_of(made)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 9)
    assert header.max_timestamp == NOW + max(r.timestamp_delta for r in records)
    assert list(iter_records(made)) == records


# kafka-python reads what is plain or gzip without further packages; aiokafka reads all codecs.
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


def test_a12_the_last_sequence_wraps() -> None:
    assert read_header(batch(2**31 - 2, 4, pid=1, epoch=0)).last_sequence == 1
    assert read_header(batch(-1, 4, pid=-1)).last_sequence == -1


@given(RECORDS)
def test_the_walk_finds_what_the_records_say(records: list[Record]) -> None:
    body = memoryview(build_batch(records, base_timestamp=NOW))[HEADER_SIZE:]
    deltas = [r.timestamp_delta for r in records]
    for _ in range(5):  # a shape that comes back gets a pattern; it must find the same
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


def test_a17_a_flipped_byte_inside_a_run_of_alike_records_is_noticed() -> None:
    body = _uniform(16)
    for _ in range(5):
        walk_records(body, 16)
    size = len(body) // 16
    structural = [0, 1, 5, 9, 10, size - 1]  # lengths of record, key and value, and the header count
    for place in structural:
        damaged = bytearray(body)
        damaged[7 * size + place] ^= 0x04
        with pytest.raises(ProtocolError):
            walk_records(memoryview(damaged), 16)


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


def test_a_truncated_last_batch_ends_the_data() -> None:
    whole = batch(count=3)
    assert [bytes(b) for b in iter_batches(whole + whole[:50])] == [whole]


def test_append_time_is_stamped_over_the_crc() -> None:
    made = bytearray(batch(count=2, timestamp=5))
    stamp_append_time(made, NOW)
    header = read_header(made)
    assert header.is_log_append_time
    assert (header.max_timestamp, header.crc) == (NOW, crc_of(made))


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


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=NAMES[1:])
def test_a_bomb_is_refused_within_bounded_memory(codec: int) -> None:
    bomb = compress(codec, bytes(40_000_000))
    tracemalloc.start()
    with pytest.raises(TooLarge):
        decompress(codec, bomb, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=NAMES[1:])
def test_garbage_is_a_protocol_error(codec: int) -> None:
    rng = random.Random(codec)
    for size in (0, 1, 5, 100):
        raw = rng.randbytes(size)
        try:
            decompress(codec, raw, 1 << 16)
        except ProtocolError:
            continue
        assert size == 0  # no codec is asked to make something of random bytes and succeeds


def test_a_missing_codec_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(CodecMissing, match=r"pip install 'wirebroker\[codecs\]'"):
        compress(3, b"x")
