"""wirebroker reads and writes message sets (magic 0 and 1) like kafka-python, and converts them like Kafka 2.8.2 and 3.9.2."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from inprocess import InProcess
from kafkawire.batches import Record, build_batch, iter_batches
from kafkawire.compression import decompress
from kafkawire.errors import ProtocolError
from kafkawire.message_sets import (
    LegacyRecord,
    Unconvertible,
    down_converted,
    has_valid_crc,
    messages_in,
    read_message,
    write_set,
)
from kafkawire.primitives import Buffer
from requesting import fetch, produce_request
from responses import only
from wirebroker import MockKafka, ProxyKafka
from wirebroker.client.wire import ConnectionClosed
from wirebroker.core.message_set_checks import MUCH_DATA
from wirebroker_tools.capture.outcomes import _fetched
from wirebroker_tools.decode.batches import RecordData, record_data
from wirekit import batch, client

NOW = 1_800_000_000_000
VALUES = [b"", b"v" * 300, None, b"w"]


def messages_of(records: Buffer) -> Iterator[LegacyRecord]:
    """Yields all messages of a set, including messages in wrappers, with their offsets."""
    for entry in iter_batches(records):
        assert has_valid_crc(entry)
        read = read_message(entry)
        yield from messages_in(read) if read.compression else (read,)


def message(
    offset: int, magic: int, value: bytes | None = b"v", *, key: bytes | None = b"k", timestamp: int = NOW
) -> LegacyRecord:
    return LegacyRecord(offset, magic, 0, timestamp if magic else -1, key, value)


def damaged(record_set: bytes) -> bytes:
    return record_set[:-1] + bytes((record_set[-1] ^ 1,))


def wrapped(magic: int, inner: bytes, *, offset: int = 0) -> bytes:
    """Returns a gzip wrapper message that contains `inner`."""
    return write_set([LegacyRecord(offset, magic, 1, NOW if magic else -1, None, gzip.compress(inner))])


# Bytes


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_sets_of_kafka_python_are_read_and_it_reads_ours(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for at, value in enumerate(VALUES):
        builder.append(at, NOW + at, None if at == 1 else b"key", value)
    expected = [(at, NOW + at if magic else -1, None if at == 1 else b"key", value) for at, value in enumerate(VALUES)]
    theirs = list(messages_of(bytes(builder.build())))
    assert [(each.offset, each.timestamp, each.key, each.value) for each in theirs] == expected

    ours = write_set([message(5 + at, magic, value) for at, value in enumerate(VALUES)], codec)
    if codec:  # kafka-python's class for a single wrapper
        read = [(each.offset, each.timestamp, each.key, each.value) for each in LegacyRecordBatch(ours, magic)]
        assert read == [(5 + at, NOW if magic else None, b"k", value) for at, value in enumerate(VALUES)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [2, 3], ids=["snappy", "lz4"])
def test_a_compressed_set_is_read_as_written(magic: int, codec: int) -> None:
    written = [message(5 + at, magic, value) for at, value in enumerate(VALUES)]
    assert list(messages_of(write_set(written, codec))) == written


def test_the_header_of_lz4_has_the_wrong_checksum_in_magic_0() -> None:
    frames = [read_message(memoryview(write_set([message(0, magic)], 3))).value for magic in (0, 1)]
    assert [(frame or b"")[:6] for frame in frames] == [b"\x04\x22\x4d\x18\x70\x40"] * 2
    assert [(frame or b"")[6] for frame in frames] == [0xEC, 0xAD]
    with pytest.raises(ProtocolError, match="checksum"):
        decompress(3, frames[0] or b"", 1 << 20)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_batch_goes_down_without_headers_and_earlier_records(magic: int, codec: int) -> None:
    records = [Record(0, 0, b"a", b"1", [("h", b"x")]), Record(1, 7, None, None)]
    stored = memoryview(build_batch(records, base_offset=40, base_timestamp=NOW, compression=codec))
    converted = list(messages_of(down_converted(stored, magic, 41)))
    expected = [(40, NOW, b"a", b"1"), (41, NOW + 7, None, None)][0 if codec else 1 :]
    assert [(m.offset, m.timestamp, m.key, m.value) for m in converted] == [
        (offset, timestamp if magic else -1, key, value) for offset, timestamp, key, value in expected
    ]


def test_control_batches_and_zstd_do_not_go_down() -> None:
    assert down_converted(memoryview(build_batch([Record(0, 0, b"\0" * 4, b"\0" * 6)], control=True)), 1, 0) == b""
    with pytest.raises(Unconvertible):
        down_converted(memoryview(build_batch([Record(0, 0, b"k", b"v")], compression=4)), 1, 0)


# A broker


@pytest.fixture
def broker() -> InProcess:
    return InProcess(topics={"orders": 1}, profile="kafka-3.9")


def produce(broker: InProcess, version: int, record_set: bytes) -> tuple[int, int]:
    answered = only(client(broker).request(produce_request("orders", record_set), version))
    return answered.error_code, answered.base_offset


SETS: dict[str, tuple[bytes, int]] = {
    "three of magic 0": (write_set([message(at, 0) for at in range(3)]), 0),
    "odd offsets": (write_set([message(7, 1), message(3, 1)]), 0),
    "cut off": (write_set([message(0, 1), message(1, 1)])[:-3], 0),
    "nothing whole": (write_set([message(0, 1)])[:-3], 0),
    "empty": (b"", 0),
    "gzip": (write_set([message(at, 0) for at in range(3)], 1), 0),
    "offset 0 of a wrapper": (wrapped(1, write_set([message(at, 1) for at in range(3)])), 0),
    "a batch": (batch(), 0),
    "CRC": (damaged(write_set([message(0, 1)])), 2),
    "CRC inside": (wrapped(1, damaged(write_set([message(0, 1)]))), 2),
    "too small a size": (bytes(11) + b"\x03" + b"abc", 2),
    "a low offset of a wrapper": (wrapped(1, write_set([message(at, 1) for at in range(3)]), offset=1), 87),
    "two wrappers": (write_set([message(0, 1)], 1) + write_set([message(1, 1)], 1), 87),
    "both magics": (write_set([message(0, 0), message(1, 1)]), 87),
    "a wrapper in a wrapper": (wrapped(1, write_set([message(0, 1)], 1)), 87),
    "another magic inside": (wrapped(1, write_set([message(0, 0)])), 87),
    "nothing inside": (wrapped(1, b""), 87),
    "no gzip": (write_set([LegacyRecord(0, 1, 1, NOW, None, b"garbage")]), -1),
    "a time before -1": (write_set([message(0, 1, timestamp=-5)]), -1),
}
"""Record data, and the error code of Kafka 3.9.2's responses to Produce 0, 1 and 2."""


@pytest.mark.parametrize("name", SETS)
def test_a_message_set_is_taken_or_refused_as_by_kafka(broker: InProcess, name: str) -> None:
    record_set, code = SETS[name]
    for version in (0, 1, 2):
        assert produce(broker, version, record_set)[0] == code, version
    stored = broker.records("orders")
    assert bool(stored) == (code == 0 and name not in ("nothing whole", "empty"))
    assert [each.offset for each in stored] == list(range(len(stored)))


def test_a_stored_message_set_is_one_batch_with_its_timestamps(broker: InProcess) -> None:
    assert produce(broker, 2, write_set([message(at, 1, b"%d" % at, timestamp=NOW - at) for at in range(3)])) == (0, 0)
    assert produce(broker, 2, write_set([message(0, 0)])) == (0, 3)
    found = [(each.offset, each.value, each.timestamp) for each in broker.records("orders")]
    assert found == [(0, b"0", NOW), (1, b"1", NOW - 1), (2, b"2", NOW - 2), (3, b"v", -1)]
    sizes = [len(each) for each in broker.engine.cluster.topics["orders"].partitions[0].log.batches()]
    assert len(sizes) == 2


def test_a_large_message_set_is_converted_in_a_thread(broker: InProcess) -> None:
    many = write_set([message(at, 1, b"v" * 1000) for at in range(MUCH_DATA // 1000 + 1)])
    assert produce(broker, 2, many) == (0, 0)
    assert len(broker.records("orders")) == MUCH_DATA // 1000 + 1


def test_versions_that_kafka_4_lost_close_the_connection() -> None:
    broker = InProcess(topics={"orders": 1})
    with pytest.raises(ConnectionClosed):
        produce(broker, 2, SETS["three of magic 0"][0])


# Fetch


def fetched(broker: InProcess, version: int, offset: int = 0, most: int = 1 << 20) -> bytes:
    answered = only(client(broker).request(fetch(offset, part={"partition_max_bytes": most}), version))
    assert answered.error_code == 0
    return bytes(answered.records)


@pytest.fixture
def stored(broker: InProcess) -> InProcess:
    for at in range(3):
        only(client(broker).request(produce_request("orders", batch(count=2, tag=f"v{at}")), 7))
    return broker


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_an_old_consumer_gets_a_message_set_of_its_magic(stored: InProcess, version: int, magic: int) -> None:
    records = fetched(stored, version, 3)
    assert [(each.offset, each.magic, each.value) for each in messages_of(records)] == [
        (3, magic, b"v11"), (4, magic, b"v20"), (5, magic, b"v21"),
    ]  # fmt: skip


def test_a_converted_response_is_filled_with_a_message_that_is_cut_off(stored: InProcess) -> None:
    as_stored, converted = fetched(stored, 4), fetched(stored, 1)
    assert len(converted) == len(as_stored)
    used = sum(len(write_set([each])) for each in messages_of(converted))
    left = len(converted) - used
    assert converted[used:] == b"\xff" * 8 + max(left + 1, 61).to_bytes(4, "big") + bytes(left - 12)


def test_before_version_3_a_batch_larger_than_the_limit_is_not_sent(stored: InProcess) -> None:
    assert (fetched(stored, 2, most=20), len(fetched(stored, 3, most=20)) > 20) == (b"", True)
    old = InProcess(topics={"orders": 1}, profile="kafka-2.8")
    only(client(old).request(produce_request("orders", batch(count=2)), 7))
    assert fetched(old, 2, most=20) == fetched(old, 4)[:20]


def test_a_topic_may_forbid_down_conversion(stored: InProcess) -> None:
    stored.engine.cluster.topics["orders"].configs.replace({"message.downconversion.enable": "false"})
    assert only(client(stored).request(fetch(), 3)).error_code == 35
    assert only(client(stored).request(fetch(), 4)).error_code == 0


# For people


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_set_is_shown_and_comes_back(magic: int, codec: int) -> None:
    record_set = write_set([message(at, magic, value) for at, value in enumerate(VALUES)], codec)
    reader = RecordData()
    plain = reader.read(record_set, "orders", 0, "records")
    shown = plain[0]["messages"] if codec else plain
    assert [(each["offset"], each["key"], each["value"]) for each in shown] == [
        (0, "k", ""), (1, "k", "v" * 300), (2, "k", None), (3, "k", "w"),
    ]  # fmt: skip
    assert (record_data(plain, "records"), reader.complaints) == (record_set, [])


def test_a_damaged_message_is_shown_in_hex_with_the_reason() -> None:
    record_set, reader = damaged(write_set([message(0, 1)])), RecordData()
    assert reader.read(record_set, "orders", 0, "records") == [{"hex": record_set.hex()}]
    assert reader.complaints == ["records[0] at byte 0: the CRC of the message does not match"]


def test_a_proxy_passes_a_message_set_and_judges_nothing() -> None:
    with MockKafka(profile="kafka-2.8", topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers) as proxy:
        many = write_set([message(at, 1, b"v" * 80) for at in range(3)])
        answered = only(client(proxy).request(produce_request("orders", many), 2))
        assert (answered.error_code, answered.base_offset) == (0, 0)
        assert list(proxy.trace.produce("orders")) == []
        fetched = only(client(proxy).request(fetch(), 2))
        assert [each.value for each in messages_of(fetched.records)] == [b"v" * 80] * 3


def test_the_outcome_of_an_old_fetch_names_its_offsets() -> None:
    lines = list(_fetched(write_set([message(4, 0), message(5, 0)])))
    assert [(line.start, line.end) for line in lines] == [(4, 4), (5, 5)]
