"""Damage to a data directory: a broker refuses the directory with a message, or serves all acknowledged records."""

from __future__ import annotations

import os
import random
import shutil
import struct
import time
from pathlib import Path

import pytest

import damagekit
from kafkawire.batches import iter_batches, read_header
from kafkawire.disk.damage import DamagedFile
from requesting import fetch
from responses import only
from wirebroker.commands.cli import main
from wirebroker.core.logs.interface import Log
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirebroker.storage.inspection import Inspection
from wirebroker.storage.store import FolderStore
from wirekit import RawProducer, client

LOG = f"{0:020d}.log"


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The data directory of a broker that stopped cleanly, with six batches in orders-0."""
    data = tmp_path / "data"
    with MockKafka(data=data, topics=["orders"]) as kafka:
        for number in range(6):
            kafka.produce("orders", value=b"%d" % number)
    return data


def test_a_log_that_ends_inside_a_batch_after_a_clean_stop_is_refused_at_once(stopped: Path) -> None:
    path = stopped / "orders-0" / LOG
    size = path.stat().st_size
    os.truncate(path, size - 1)
    with pytest.raises(DamagedFile) as refused:
        MockKafka(data=stopped).start()
    assert (refused.value.path, refused.value.position) == (path, size // 6 * 5)


def damaged(stopped: Path, name: str) -> Path:
    return stopped / "orders-0" / name


def refusal(data: Path) -> DamagedFile:
    with pytest.raises(DamagedFile) as refused:
        MockKafka(data=data).start()
    return refused.value


def values(data: Path) -> list[bytes | None]:
    with MockKafka(data=data) as kafka:
        return [record.value for record in kafka.records("orders")]


ALL = [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("how", ["emptied", "cut", "deleted", "all deleted"])
def test_after_a_clean_stop_a_log_that_is_shorter_than_the_checkpoint_says_is_refused(stopped: Path, how: str) -> None:
    path = damaged(stopped, LOG)
    whole = path.read_bytes()
    if how == "deleted":
        path.unlink()
    elif how == "all deleted":
        for each in path.parent.glob("0*"):
            each.unlink()
    else:
        path.write_bytes(whole[: len(whole) // 2 if how == "cut" else 0])
    said = str(refusal(stopped))
    assert {
        "emptied": "the log ends at offset 0, but it ended at offset 6 when the broker stopped cleanly",
        "cut": "the log ends at offset 3, but it ended at offset 6 when the broker stopped cleanly",
        "deleted": "it is missing, but its index",
        "all deleted": "it has no segments, but the log had reached offset 6",
    }[how] in said
    path.write_bytes(whole)
    assert values(stopped) == ALL


def test_the_rest_of_a_log_is_served_once_the_checkpoint_is_removed_as_advised(stopped: Path) -> None:
    path = damaged(stopped, LOG)
    os.truncate(path, path.stat().st_size // 2)
    assert f"to go on without the missing records, remove {stopped / 'recovery-point-offset-checkpoint'}" in str(
        refusal(stopped)
    )
    (stopped / "recovery-point-offset-checkpoint").unlink()
    assert values(stopped) == ALL[:3]


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """The data directory of a broker that stopped cleanly. The index has an entry for every batch except the first."""
    data = tmp_path / "data"
    with MockKafka(data=data, topics=["orders"], configs={"log.index.interval.bytes": 0}) as kafka:
        for number in range(3):
            kafka.produce("orders", value=b"%d" % number)
    return data


@pytest.mark.parametrize("whole", [True, False], ids=["read whole", "ends only"])
def test_no_bit_of_an_index_loses_a_record(indexed: Path, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr(Inspection, "takes", lambda *_: False)
    path = damaged(indexed, f"{0:020d}.index")
    sound = path.read_bytes()
    assert len(sound) == 16
    now = time.time_ns() // 1_000_000
    for bit in range(len(sound) * 8):
        raw = bytearray(sound)
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        (indexed / ".kafka_cleanshutdown").touch()
        store = FolderStore(indexed, bytes)
        partition = Engine(now, bytes, store=store).cluster.topics["orders"].partitions[0]
        found = [partition.log.read(offset, 3, 1, True).data for offset in range(3)]
        assert [read_header(data).base_offset for data in found] == [0, 1, 2], bit
        store.abandon()


@pytest.mark.parametrize(("name", "line", "changed", "said"), [
    ("recovery-point-offset-checkpoint", "orders 0 6", "orders 0 7", "the CRC in line"),
    ("log-start-offset-checkpoint", "__crc32c 0 ", "__crc32c 0 1", "the CRC in line"),
    ("meta.properties", "version=1", "version=0", "the CRC in its last line does not match"),
])  # fmt: skip
def test_a_changed_digit_is_refused(stopped: Path, name: str, line: str, changed: str, said: str) -> None:
    path = stopped / name
    text = path.read_text()
    assert line in text
    path.write_text(text.replace(line, changed))
    assert said in str(refusal(stopped))


def test_a_folder_that_is_gone_is_refused_until_an_empty_one_is_made(stopped: Path) -> None:
    shutil.rmtree(stopped / "orders-0")
    assert "it is missing, but the metadata has the partition" in str(refusal(stopped))
    (stopped / "orders-0").mkdir()  # the message advises this
    assert values(stopped) == []


def test_a_directory_where_a_file_should_be_is_a_sentence(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = damaged(stopped, LOG)
    path.unlink()
    path.mkdir()
    assert main(["serve", "--port", "0", "--data", str(stopped)]) == 2
    assert capsys.readouterr().err.startswith(f"wirebroker serve: {path}: this is a folder where a file should be")


@pytest.mark.parametrize("truncated", [False, True], ids=["kept", "truncated"])
def test_batches_that_are_written_after_a_start_that_read_only_the_ends_can_be_read(
    stopped: Path, truncated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader epoch of the new batches is later than the epochs in the checkpoint, and the index does not have the aborted
    transaction. A Fetch of the earlier batches must also read the new batches."""
    monkeypatch.setattr(Inspection, "takes", lambda *_: False)
    with MockKafka(data=stopped) as kafka:
        if truncated:
            kafka.truncate("orders", 0, 3)
        kafka.produce("orders", value=b"new")
        damagekit.transactions(kafka, client(kafka), random.Random(1), partitions=1)
        fetched = only(client(kafka).request(fetch(0), 11))
        assert fetched.error_code == 0
        assert [read_header(each).last_offset for each in iter_batches(fetched.records)][-1] == fetched.high_watermark - 1


def log_that_was_not_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Starts a broker, which checks only the ends of its files. Returns the log of orders-0."""
    monkeypatch.setattr(Inspection, "takes", lambda *_: False)
    store = FolderStore(data, bytes)
    try:
        return Engine(time.time_ns() // 1_000_000, bytes, store=store).cluster.topics["orders"].partitions[0].log
    finally:
        store.abandon()


@pytest.mark.parametrize(("at", "value", "why"), [
    (43, 1, "the CRC of the batch does not match its bytes"),
    (7, 1, "no batch begins here"),
    (7, 9, "no batch begins here"),
    (15, 9, "carries the leader epoch 9, and"),
], ids=["a byte of the content", "a lower offset", "a higher offset", "the leader epoch"])  # fmt: skip
def test_a_damaged_batch_that_the_start_did_not_read_is_refused_when_it_is_read(
    stopped: Path, at: int, value: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged(stopped, LOG)
    size = path.stat().st_size // 6
    damaged(stopped, f"{0:020d}.index").write_bytes(struct.pack(">ii", 5, size * 5))
    raw = bytearray(path.read_bytes())
    raw[size * 3 + at] = value
    path.write_bytes(raw)
    log = log_that_was_not_read(stopped, monkeypatch)
    for sound in (0, 1, 2, 5):
        assert read_header(log.read(sound, 6, 1, True).data).base_offset == sound
    with pytest.raises(DamagedFile, match=why):
        log.read(3, 6, 1, True)
    with pytest.raises(DamagedFile, match=why if at > 7 else "the batch begins at offset"):
        log.read(0, 6, 1000, True)


def test_an_aborted_transaction_that_the_index_lacks_is_refused_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with MockKafka(data=data, topics={"orders": 1}) as kafka:
        damagekit.transactions(kafka, client(kafka), random.Random(1), partitions=1)
    assert log_that_was_not_read(data, monkeypatch).read(0, 9, 10_000, True).data
    (data / "orders-0" / f"{0:020d}.txnindex").unlink()
    (data / ".kafka_cleanshutdown").touch()
    with pytest.raises(DamagedFile, match="0.txnindex: it lacks the transaction that producer 1 aborted at offset 3"):
        log_that_was_not_read(data, monkeypatch).read(0, 9, 10_000, True)


@pytest.mark.parametrize("expire", ["by hand", "by time"])
def test_a_producer_that_expired_stays_forgotten(expire: str, tmp_path: Path) -> None:
    """If a snapshot does not have a producer, Kafka trusts the snapshot, even if batches of this producer are still in the
    log.
    """
    data = tmp_path / "data"
    with MockKafka(data=data, topics=["orders"]) as kafka:
        gone, stays = RawProducer(kafka, "orders", 0), RawProducer(kafka, "orders", 0)
        gone.send(0, 2)
        if expire == "by time":
            kafka.clock.advance(days=3)
        stays.send(0, 2)
        if expire == "by hand":
            kafka.expire_producer(gone.pid)
    for _ in range(2):
        with MockKafka(data=data) as kafka:
            assert list(kafka.producers("orders", 0)) == [stays.pid]


def test_producers_that_are_known_by_name_do_not_keep_a_directory_from_being_served(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for start in range(3):
        with MockKafka(data=data, topics=["orders"], profile="pulsar") as kafka:
            RawProducer(kafka, "orders", 0).send(0, 2)
            assert len(kafka.records("orders")) == 3 * (start + 1)


def test_two_checkpoints_in_each_others_place_are_refused(stopped: Path) -> None:
    one, other = stopped / "replication-offset-checkpoint", stopped / "log-start-offset-checkpoint"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    assert "the CRC in line" in str(refusal(stopped))


def test_the_offset_indexes_of_two_logs_in_each_others_place_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with MockKafka(data=data, topics={"orders": 2}, configs={"log.index.interval.bytes": 0}, clock="frozen") as kafka:
        for number in range(4):
            kafka.produce("orders", value=b"%d" % number, partition=0)
            kafka.produce("orders", value=b"another %d" % number, partition=1)
    logs = [data / f"orders-{partition}" / LOG for partition in range(2)]
    contents = [path.read_bytes() for path in logs]
    for path, content in zip(logs, reversed(contents), strict=True):
        path.write_bytes(content)
    assert "begins at position" in str(refusal(data))


def test_a_leader_epoch_that_was_changed_is_refused_and_one_that_is_lost_is_found_again(stopped: Path) -> None:
    path, checkpoint = damaged(stopped, LOG), damaged(stopped, "leader-epoch-checkpoint")
    sound = path.read_bytes()
    raw = bytearray(sound)
    raw[15] ^= 1
    path.write_bytes(raw)
    assert f"carries the leader epoch 1, and {checkpoint} says [(0, 0)]" in str(refusal(stopped))
    path.write_bytes(sound)
    checkpoint.unlink()
    with MockKafka(data=stopped) as kafka:
        starts = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].epochs.starts)
    assert starts[0] == (0, 0)


@pytest.mark.parametrize("epoch", [-1, -(2**31)])
def test_a_batch_with_a_negative_leader_epoch_is_refused(stopped: Path, epoch: int) -> None:
    path = damaged(stopped, LOG)
    raw = bytearray(path.read_bytes())
    raw[12:16] = struct.pack(">i", epoch)
    path.write_bytes(raw)
    (stopped / ".kafka_cleanshutdown").unlink()  # after kill -9 there is no such file
    assert f"the batch of offset 0 carries the leader epoch {epoch}" in str(refusal(stopped))


def test_a_start_that_appends_nothing_leaves_the_leader_epoch_checkpoint_alone(stopped: Path) -> None:
    checkpoint = damaged(stopped, "leader-epoch-checkpoint")
    before = checkpoint.stat()
    with MockKafka(data=stopped):
        pass
    assert checkpoint.stat().st_ino == before.st_ino
    assert checkpoint.stat().st_mtime_ns == before.st_mtime_ns


def test_after_a_kill_an_epoch_that_the_checkpoint_lacks_is_found_in_the_batches(stopped: Path) -> None:
    with MockKafka(data=stopped) as kafka:
        kafka.produce("orders", value=b"6")
        kafka.restart("kill")
        starts = kafka._call(lambda engine: list(engine.cluster.topics["orders"].partitions[0].epochs.starts))
    assert [offset for _, offset in starts] == [0, 6, 7]


# At random


def sample(seed: int, seconds: float, most: int | None = None) -> damagekit.Report:
    report = damagekit.run(seed, time.monotonic() + seconds, most=most)
    assert not report.wrong, str(report)
    return report


def test_a_damaged_directory_is_refused_or_serves_the_truth() -> None:
    report = sample(20261122, 60, most=60)
    assert report.counts["served"]
    assert report.counts["refused"]


@pytest.mark.slow
def test_hundreds_of_damaged_directories_are_refused_or_serve_the_truth() -> None:
    assert sample(322206, 300, most=1300).tried == 1300


def test_a_segment_that_is_gone_from_the_middle_is_missed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with MockKafka(data=data, topics={"orders": {"configs": {"segment.bytes": "1048576"}}}) as kafka:
        for _ in range(3):
            kafka.produce("orders", value=bytes(700_000))
    assert sorted(path.name for path in (data / "orders-0").glob("*.log")) == [f"{base:020d}.log" for base in range(3)]
    for path in (data / "orders-0").glob(f"{1:020d}.*"):
        path.unlink()
    said = str(refusal(data))
    assert "it begins at offset 2, but the preceding segment's next offset is 1" in said
