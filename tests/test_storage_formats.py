"""Each kind of file in a data directory: the broker can read a file that it has written, and reports damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.disk.checkpoints import epochs_text, offsets_text, read_epochs, read_offsets
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.indexes import (
    TIME_ENTRY,
    AbortedTransaction,
    last_entry,
    offset_index_bytes,
    read_offset_index,
    read_time_index,
    read_transaction_index,
    time_index_bytes,
    transaction_index_bytes,
)
from kafkawire.disk.metadata import Image, PartitionImage, TopicImage, difference
from kafkawire.disk.names import (
    LOG,
    deleted_folder_name,
    file_name,
    is_deleted_folder,
    offset_of,
    partition_of,
)
from kafkawire.disk.properties import (
    partition_metadata_text,
    properties_text,
    read_partition_metadata,
    read_properties,
)
from kafkawire.errors import ProtocolError
from kafkawire.messages.leader_change_message import LeaderChangeMessage
from kafkawire.metadata_log import metadata_bytes, read_metadata
from wirebroker.core.producers import BatchMetadata, ProducerEntry, last_batch_only, pack
from wirebroker.storage.metadata import MetadataLog
from wirebroker.storage.segment import FULL, Index, Recent, Segment, SegmentSettings
from wirebroker.storage.snapshots import read_snapshot, snapshot_bytes
from wirekit import batch

INT64, INT32, INT16 = (st.integers(-(2**bits), 2**bits - 1) for bits in (63, 31, 15))
BASE = 5_000_000_000


def test_names() -> None:
    assert file_name(42, LOG) == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log", LOG) == 42
    assert [offset_of(name, LOG) for name in ("42.log", "00000000000000000042.index", "x.log")] == [None] * 3
    assert partition_of("a-b-12") == ("a-b", 12)
    assert [partition_of(name) for name in ("orders", "orders-", "orders-01", "-1")] == [None] * 4
    gone = deleted_folder_name("x" * 249, 100, bytes(16))
    assert len(gone) == 255
    assert is_deleted_folder(gone)
    assert not is_deleted_folder("orders-delete")


REAL_SNAPSHOT = bytes.fromhex(
    "0001799c58e5000000010000000000000000000000000f9f0000000000000f9f00000027000001a1fd470d65ffffffffffffffffffffffff"
)
"""A producer snapshot of Kafka 4.3.1, for a log with one idempotent producer."""


def entry(batches: tuple[BatchMetadata, ...], opened: int = -1) -> ProducerEntry:
    last = batches[-1] if batches else BatchMetadata(-1, -1, 0, 77)
    return ProducerEntry(3, last.last_sequence, 4, last.timestamp, opened, False, batches)


def test_a_snapshot_has_kafkas_bytes(tmp_path: Path) -> None:
    last = BatchMetadata(3999, 3999, 39, 1795250654565)
    state = pack(ProducerEntry(0, 3999, -1, 1795250654565, -1, False, (last,)))
    assert snapshot_bytes({0: state}) == REAL_SNAPSHOT
    (tmp_path / "s").write_bytes(REAL_SNAPSHOT)
    assert read_snapshot(tmp_path / "s") == {0: state}


def test_a_snapshot_keeps_the_last_batch_of_each_producer(tmp_path: Path) -> None:
    batches = tuple(BatchMetadata(i, 10 + i, 0, 1000 + i) for i in range(5))
    states = {7: pack(entry(batches)), 8: pack(entry((), opened=12)), "by name": pack(entry(batches))}
    (tmp_path / "s").write_bytes(snapshot_bytes(states))
    assert read_snapshot(tmp_path / "s") == {7: last_batch_only(states[7]), 8: states[8]}


@pytest.mark.parametrize("at", [0, 3, 8, 20, 50])
def test_a_damaged_snapshot_is_reported(at: int, tmp_path: Path) -> None:
    raw = bytearray(snapshot_bytes({7: pack(entry((BatchMetadata(1, 2, 0, 3),)))}))
    raw[at] ^= 1
    (tmp_path / "s").write_bytes(raw)
    with pytest.raises(DamagedFile, match="snapshot"):
        read_snapshot(tmp_path / "s")
    (tmp_path / "s").write_bytes(raw[:at])
    with pytest.raises(DamagedFile):
        read_snapshot(tmp_path / "s")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), max_size=20), st.integers(0, 40))
def test_indexes_are_read_as_far_as_they_rise(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], zeros: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "index"
    offset, position = BASE, 0
    entries = []
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        entries.append((offset, position))
    path.write_bytes(offset_index_bytes(BASE, entries) + bytes(8 * zeros))  # Kafka's active index ends with zeros
    assert list(zip(*read_offset_index(path, BASE), strict=True)) == entries
    times = [(position, offset) for offset, position in entries]
    path.write_bytes(time_index_bytes(BASE, times) + bytes(12 * zeros))
    assert list(zip(*read_time_index(path, BASE), strict=True)) == times
    if not zeros:
        assert last_entry(path, TIME_ENTRY) == ((times[-1][0], times[-1][1] - BASE) if times else ())


def test_an_index_of_an_odd_size_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(bytes(13))
    readers: list[Callable[[], object]] = [
        lambda: read_offset_index(path, 0), lambda: read_time_index(path, 0), lambda: read_transaction_index(path)
    ]  # fmt: skip
    for read in readers:
        with pytest.raises(DamagedFile, match="13 bytes are not a multiple of"):
            read()


def test_transaction_indexes(tmp_path: Path) -> None:
    aborted = [AbortedTransaction(7, 10, 20, 21), AbortedTransaction(8, 5, 25, 10)]
    assert read_transaction_index(tmp_path / "none") == []
    (tmp_path / "t").write_bytes(transaction_index_bytes(aborted))
    assert (tmp_path / "t").stat().st_size == 68
    assert read_transaction_index(tmp_path / "t") == aborted
    (tmp_path / "t").write_bytes(bytes(34) + b"\0\1" + bytes(32))
    with pytest.raises(DamagedFile, match="position 34: the entry has version 1"):
        read_transaction_index(tmp_path / "t")


def test_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "c"
    offsets = {("orders", 0): 5, ("a-b.c_d", 12): BASE}
    path.write_text(offsets_text("c", offsets))
    crc = crc32c(f"c\norders 0 5\na-b.c_d 12 {BASE}".encode())
    assert path.read_text() == f"0\n3\norders 0 5\na-b.c_d 12 {BASE}\n__crc32c 0 {crc}\n"
    assert read_offsets(path) == (offsets, True)
    path.write_text(path.read_text().replace("orders 0 5", "orders 0 4"))
    with pytest.raises(DamagedFile, match="the CRC in line 5 does not match the lines before it"):
        read_offsets(path)
    path.write_text("0\n1\norders 0 5\n")  # as Kafka writes it
    assert read_offsets(path) == ({("orders", 0): 5}, False)
    assert read_offsets(tmp_path / "none") == ({}, False)
    path.write_text("")  # as a power cut leaves it
    assert read_offsets(path) == ({}, False)
    for text, why in (("none", "begins with a version"), ("1\n0\n", "version '1'"), ("0\n2\norders 0 5\n", "announces 2"),
                      ("0\n1\norders x 5\n", "line 3 is not")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(DamagedFile, match=why):
            read_offsets(path)


def is_lie(path: Path, epochs: list[tuple[int, int]]) -> bool:
    """Tells whether the damaged file can be read without an error, but then gives wrong leader epochs."""
    try:
        return read_epochs(path) != epochs
    except DamagedFile:
        return False


@pytest.mark.parametrize("epochs", [[], [(0, 0)], [(0, 0), (3, 17)]])
def test_no_byte_of_a_leader_epoch_checkpoint_changes_or_goes_unnoticed(tmp_path: Path, epochs: list[tuple[int, int]]) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    text = epochs_text(epochs)
    path.write_text(text)
    assert read_epochs(path) == epochs
    for at in range(len(text)):
        changed = [text[:at] + other + text[at + 1 :] for other in ("0", "1", " ", "\t", "\n") if other != text[at]]
        for damaged in (text[: at or 1], *changed):
            path.write_text(damaged)
            assert not is_lie(path, epochs), repr(damaged)


def test_a_leader_epoch_checkpoint_of_kafka_needs_no_crc(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n3 17\n")
    assert read_epochs(path) == [(0, 0), (3, 17)]


def test_properties(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("#\n#Sat Nov 21\nnode.id=1\n cluster.id = a=b\\:c\n\n")
    assert read_properties(path) == {"node.id": "1", "cluster.id": "a=b:c"}
    path.write_text(properties_text({"version": "1"}))
    assert read_properties(path) == {"version": "1"}
    path.write_text(path.read_text().replace("version=1", "version=0"))
    with pytest.raises(DamagedFile, match="the CRC in its last line does not match"):
        read_properties(path)
    topic_id = bytes(range(16))
    path.write_text(partition_metadata_text(topic_id))
    assert path.read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert read_partition_metadata(path) == topic_id
    for text in ("version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", "version: 0\ntopic_id: AA\n", "version: 0\n"):
        path.write_text(text)
        with pytest.raises(DamagedFile):
            read_partition_metadata(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DamagedFile, match="not text"):
        read_properties(path)


def test_a_segment_is_full_when_its_index_is(tmp_path: Path) -> None:
    told: list[int] = []
    segment = Segment(tmp_path, 0, 1, SegmentSettings(0, 3, 9, lambda: told.append(1), Recent(9, Segment.release)), Index())
    segment.create()
    for offset in range(4):
        assert segment.created == 1
        segment.append(batch(), offset, 0, 5, False)
    assert segment.created == FULL
    assert told == [1, 1]  # when the segment is created, and with its first batch
    assert segment.index.positions.tolist() == [segment.size // 4 * i for i in (1, 2, 3)]


# The cluster's metadata


def image(chance: random.Random) -> Image:
    made = Image(next_producer_id=1000 * chance.randrange(3))
    for number in chance.sample(range(5), chance.randrange(5)):
        partitions = {}
        for index in range(chance.randint(1, 3)):
            replicas = tuple(chance.sample((1, 2, 3), chance.randint(1, 3)))
            ids = tuple(bytes([chance.randrange(3)] * 16) for _ in replicas)
            leader, epoch = chance.choice((*replicas, -1)), chance.randrange(4)
            partitions[index] = PartitionImage(replicas, replicas, leader, epoch, directories=ids)
        made.topics[bytes([number]) * 16] = TopicImage(f"topic-{number}", partitions)
        made.settings[2, f"topic-{number}"] = {name: str(chance.randrange(3)) for name in "ab" if chance.random() < 0.5}
    made.settings[4, ""] = {"x": str(chance.randrange(2))}
    return made


def settings_of(made: Image) -> dict[tuple[int, str], dict[str, str]]:
    return {resource: held for resource, held in made.settings.items() if held}


@pytest.mark.parametrize("seed", range(40))
def test_the_records_of_a_difference_lead_from_one_image_to_the_next(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log = MetadataLog(tmp_path)
    log.create()
    for _ in range(6):
        following = image(chance)
        for topic_id, topic in following.topics.items():  # leader epochs never decrease, and partitions are not removed
            for index, before in log.image.topics.get(topic_id, TopicImage("")).partitions.items():
                now = topic.partitions.get(index, before)
                epoch = before.leader_epoch + (now.leader != before.leader) + chance.randrange(2)
                topic.partitions[index] = now._replace(leader_epoch=epoch)
        log.append(difference(log.image, following, (1, 7), 22 + chance.randrange(2), sorted), 5)
        log.image = following
        read = MetadataLog(tmp_path).image
        assert (read.topics, read.next_producer_id) == (following.topics, following.next_producer_id)
        assert settings_of(read) == settings_of(following)
    log.close()


def test_metadata_that_was_begun_is_never_empty(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.create()
    # Until its first record is written, the log counts as missing, because the broker can be killed before that.
    assert not MetadataLog(tmp_path).exists
    log.begin_epoch(LeaderChangeMessage(version=0, leader_id=1, voters=[], granting_voters=[]), 0, 5)
    assert log.begun()
    log.close()
    read = MetadataLog(tmp_path)
    assert (read.exists, read.end_offset) == (True, 1)
    log.path.unlink()
    read = MetadataLog(tmp_path)
    assert (read.exists, read.end_offset) == (True, 0)


def test_unreadable_metadata_records_raise_an_error(tmp_path: Path) -> None:
    from kafkawire.metadata_records.topic_record import TopicRecord

    record = TopicRecord(name="orders", topic_id=bytes(16))
    assert read_metadata(metadata_bytes(record, 0)) == (2, record)
    assert read_metadata(bytes([1, 20, 0, 0])) == (20, None)
    for raw in (b"", b"\1", b"\2\2\0", b"\1\2\0\x05ab"):
        with pytest.raises(ProtocolError):
            read_metadata(raw)


def test_damaged_metadata_is_reported_with_its_position(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.create()
    for seed in range(3):
        following = image(random.Random(seed))
        log.append(difference(log.image, following, (1, 7), 23, sorted), 5)
        log.image = following
    log.close()
    raw = bytearray(log.path.read_bytes())
    raw[70] ^= 1
    log.path.write_bytes(raw)
    with pytest.raises(DamagedFile, match=r"log, position 0: the CRC of the batch does not match its bytes, and a sound"):
        MetadataLog(tmp_path)
    assert log.path.read_bytes() == raw
