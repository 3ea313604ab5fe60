"""The flag --data: which state a data directory keeps over restarts and crashes, and why a broker refuses a directory."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from controlkit import ControlClient
from crashkit import commit, committed, crash_once
from kafkawire.batches import Record, build_batch, iter_batches, read_header
from kafkawire.disk.checkpoints import offsets_text
from kafkawire.disk.damage import DamagedFile, DataError
from kafkawire.disk.metadata import PartitionImage, written_image
from kafkawire.disk.properties import read_properties
from kafkawire.errors import ErrorCode
from kafkawire.primitives import parse_uuid
from requesting import create_topic, delete_records, end_txn, init_producer_id, plain, produce_request
from responses import only, sole
from wirebroker.commands.cli import main
from wirebroker.core.logs.memory import MemoryLog
from wirebroker.core.truncation import truncate
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirebroker.storage import files
from wirebroker.storage.locking import DirectoryLock
from wirebroker.storage.log import FolderLog
from wirebroker.storage.metadata import MetadataLog
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import load
from wirebroker_tools.conformance.replay import replay
from wirekit import RawProducer, batch, client

SMALL = {"segment.bytes": "1048576"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def after_kill(data: Path, to: Path) -> Path:
    """Copies a running broker's directory. The copy is as the directory would be after kill −9, because kill −9 loses no write
    in the page cache.
    """
    removed = shutil.ignore_patterns("*.deleted", "*-delete")  # a thread may remove such files during the copy
    return Path(shutil.copytree(data, to, ignore=removed))


def log_of(kafka: MockKafka, topic: str = "orders", partition: int = 0) -> FolderLog:
    log = kafka._call(lambda engine: engine.cluster.topics[topic].partitions[partition].log)
    assert isinstance(log, FolderLog)
    return log


# State that is kept


@pytest.mark.parametrize("ends", ["clean", "kill"])
def test_d1_of_each_producer_the_last_batch_is_recognised(data: Path, tmp_path: Path, ends: str) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        offsets = [producer.send(first, first + 1).base_offset for first in (0, 2, 4)]
        records = kafka.records("orders")
        if ends == "kill":
            data = after_kill(data, tmp_path / "copy")
    with MockKafka(data=data) as kafka:
        assert kafka.records("orders") == records
        producer.wire = client(kafka)
        assert producer.send(4, 5).base_offset == offsets[2]
        assert producer.send(2, 3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producer.send(6).base_offset == 6
        assert [row.verdict for row in kafka.trace.produce("orders")] == ["duplicate", "rejected", "accepted"]


@pytest.mark.parametrize(("ends", "response"), [("clean", (0, 3)), ("kill", (0, 2))])
def test_d6_after_delete_records_a_producer_is_forgotten_unless_the_deletion_is(
    data: Path, tmp_path: Path, ends: str, response: tuple[int, int]
) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        for sequence in range(3):
            producer.send(sequence)
        client(kafka).request(delete_records(3), 2)
        assert kafka.records("orders") == []
        if ends == "kill":
            data = after_kill(data, tmp_path / "copy")
    with MockKafka(data=data) as kafka:
        assert len(kafka.records("orders")) == (0 if ends == "clean" else 3)
        producer.wire = client(kafka)
        told = producer.send(2)  # after a clean stop, the broker does not recognise this retry
        assert (told.error_code, told.base_offset) == response


@pytest.mark.parametrize("where", ["memory", "directory"])
@pytest.mark.parametrize("mode", ["clean", "kill"])
def test_d6_who_lost_his_records_is_known_after_a_restart_while_others_have_some(data: Path, where: str, mode: str) -> None:
    with MockKafka(data=data if where == "directory" else None, topics=["orders"]) as kafka:
        first, second = RawProducer(kafka), RawProducer(kafka)
        for producer in (first, second):
            for sequence in range(3):
                producer.send(sequence)
        client(kafka).request(delete_records(4), 2)
        kafka.restart(mode)
        for producer, offset in ((first, 2), (second, 5)):  # the response of Kafka 4.3.1
            producer.wire = client(kafka)
            assert producer.send(2).base_offset == offset
            assert producer.send(1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_d6_a_clean_stop_and_a_start_raise_the_leader_epoch_by_two(data: Path) -> None:
    epochs = []
    for _ in range(3):  # a stop and a start have an election each; the epochs of Kafka 4.3.1 are also 0, 2, 4
        with MockKafka(data=data, topics=None if epochs else ["orders"]) as kafka:
            epochs.append(kafka.partition("orders").leader_epoch)
    assert epochs == [0, 2, 4]


def test_d6_a_topic_that_is_deleted_leaves_nothing(data: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        producer.send(0)
        gone = plain("DeleteTopics", topics=[{"name": "orders", "topic_id": bytes(16)}], timeout_ms=1000)
        assert sole(client(kafka).request(gone, 6).responses).error_code == 0
        kafka.create_topic("orders")
        assert producer.send(7).base_offset == 0
    assert [path.name for path in data.iterdir() if path.name.startswith("orders")] == ["orders-0"]
    with MockKafka(data=data) as kafka:
        assert [record.sequence for record in kafka.records("orders")] == [7]


def test_d6_after_a_kill_a_topic_of_a_deleted_topics_name_begins_at_offset_0(data: Path, tmp_path: Path) -> None:
    with MockKafka(data=data, topics=["orders"], clock="frozen") as kafka:
        for _ in range(3):
            kafka.produce("orders", value=b"a")
        client(kafka).request(delete_records(3), 2)
        kafka.clock.advance(seconds=70)  # the checkpoint contains the log start
        assert "orders 0 3" in (data / "log-start-offset-checkpoint").read_text()
        kafka.delete_topic("orders")
        kafka.create_topic("orders")
        kafka.produce("orders", value=b"b")
        copy = after_kill(data, tmp_path / "copy")
        kafka.restart("kill")
        assert [record.offset for record in kafka.records("orders")] == [0]
    with MockKafka(data=copy) as kafka:
        assert [record.offset for record in kafka.records("orders")] == [0]


def test_a_start_with_the_same_seed_gives_none_of_the_ids_of_an_earlier_start(data: Path, tmp_path: Path) -> None:
    ids: dict[Path, list[str]] = {data: [], tmp_path / "other": []}
    for place, given in ids.items():
        for number in range(3):
            with MockKafka(data=place, random_seed=1, topics={f"t{number}": 1}) as kafka:
                given.append(kafka.topics()[f"t{number}"].topic_id)
                kafka.delete_topic(f"t{number}")
    first, second = ids.values()
    assert first == second
    assert len(set(first)) == 3


def test_topics_their_ids_settings_and_producer_id_blocks_are_kept(data: Path) -> None:
    def topics(kafka: MockKafka) -> Any:
        found = client(kafka).request(plain("Metadata", topics=None), 12).topics
        return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in found}

    with MockKafka(data=data, topics={"orders": 3}) as kafka:
        first = RawProducer(kafka).pid
        created = client(kafka).request(create_topic("short", 2, configs={"retention.ms": "12345"}), 7)
        assert sole(created.topics).error_code == 0
        before = topics(kafka)
    with MockKafka(data=data, topics={"orders": 3}) as kafka:
        assert topics(kafka) == before
        settings = kafka._call(lambda engine: engine.cluster.topics["short"].configs.overrides)
        assert settings == {"retention.ms": "12345"}
        assert RawProducer(kafka).pid == first + 1000  # as in Kafka, the rest of the block is lost


def test_committed_offsets_are_kept(data: Path, tmp_path: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        for offset in (5, 7):
            assert commit(client(kafka), offset) == 0
        copy = after_kill(data, tmp_path / "copy")
    for place in (data, copy):
        with MockKafka(data=place) as kafka:
            assert committed(client(kafka)) == 7


def transactional(kafka: MockKafka, producer: tuple[int, int], sequence: int) -> Any:
    records = batch(sequence, 1, pid=producer[0], epoch=producer[1], transactional=True)
    request = produce_request("orders", records, timeout_ms=1000, txid="tx")
    return only(client(kafka).request(request, 12))


def begin(kafka: MockKafka) -> tuple[int, int]:
    wire = client(kafka)
    wire.request(plain("FindCoordinator", key="tx", key_type=1), 3)
    response = wire.request(init_producer_id("tx"), 5)
    assert response.error_code == 0
    return response.producer_id, response.producer_epoch


def end(kafka: MockKafka, producer: tuple[int, int], commit: bool) -> Any:
    request = end_txn("tx", (producer[0], producer[1]), commit)
    return client(kafka).request(request, 5)


@pytest.mark.parametrize("ends", ["clean", "kill"])
def test_transactions_are_kept(data: Path, tmp_path: Path, ends: str) -> None:
    def visible(kafka: MockKafka) -> tuple[int, list[Any]]:
        def ask(engine: Any) -> tuple[int, list[Any]]:
            partition = engine.cluster.topics["orders"].partitions[0]
            return partition.last_stable_offset, partition.transactions.aborted_between(0, 99)

        return kafka._call(ask)

    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = begin(kafka)
        assert transactional(kafka, producer, 0).error_code == 0
        ended = end(kafka, producer, False)
        producer = ended.producer_id, ended.producer_epoch
        assert transactional(kafka, producer, 0).base_offset == 2
        before = visible(kafka)
        assert (before[0], len(before[1])) == (2, 1)
        if ends == "kill":
            data = after_kill(data, tmp_path / "copy")
    with MockKafka(data=data) as kafka:
        assert visible(kafka) == before
        assert transactional(kafka, producer, 1).base_offset == 3
        assert end(kafka, producer, True).error_code == 0
        assert visible(kafka)[0] == 5
        assert transactional(kafka, producer, 2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_three_brokers_have_a_directory_each(data: Path) -> None:
    with MockKafka(data=data, brokers=3, topics={"orders": 3}) as kafka:
        for partition in range(3):
            kafka.produce("orders", value=b"a", partition=partition)
        before = kafka.records("orders")
    for node in (1, 2, 3):
        assert (data / f"node-{node}" / f"orders-{node - 1}" / f"{0:020d}.log").stat().st_size
        assert f"node.id={node}\n" in (data / f"node-{node}" / "meta.properties").read_text()
    with MockKafka(data=data, brokers=3) as kafka:
        assert kafka.records("orders") == before
    with pytest.raises(DataError, match="has the data of 3 brokers; start it with --brokers 3"):
        MockKafka(data=data).start()


def reassign(kafka: MockKafka, replicas: list[int]) -> None:
    partition = {"partition_index": 0, "replicas": replicas}
    topics = [{"name": "orders", "partitions": [partition]}]
    asked = plain("AlterPartitionReassignments", timeout_ms=1000, topics=topics)
    assert only(client(kafka).request(asked, 0)).error_code == 0


@pytest.mark.parametrize("replicas", [[2, 1], [3, 2]])
def test_a_partition_is_found_after_its_replicas_have_changed(data: Path, replicas: list[int]) -> None:
    with MockKafka(data=data, brokers=3) as kafka:
        kafka.create_topic("orders", replication_factor=2)
        kafka.produce("orders", value=b"a")
        reassign(kafka, replicas)
        kafka.produce("orders", value=b"b")
    for _ in range(2):
        with MockKafka(data=data, brokers=3) as kafka:
            assert [record.value for record in kafka.records("orders")] == [b"a", b"b"]
            assert kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].replicas) == replicas
    assert [path.parent.name for path in data.glob("node-*/orders-0")] == ["node-1"]


def test_a_change_of_the_leader_is_written_although_a_waiting_request_writes_the_metadata_meanwhile(data: Path) -> None:
    with MockKafka(data=data, brokers=3) as kafka:
        kafka.create_topic("orders", partitions=2, replication_factor=3)

        def wait(engine: Engine) -> None:
            partition = engine.cluster.topics["orders"].partitions[0]
            partition.waiting[lambda _, now: engine.cluster.decisions.write_down(now)] = None

        kafka._call(wait)
        kafka.kill_broker(1)
        written = written_image(data / "node-1")
        assert written is not None
        (orders,) = (topic for topic in written.image.topics.values() if topic.name == "orders")
        assert [{*orders.partitions[index].in_sync} for index in (0, 1)] == [{2, 3}, {2, 3}]


def test_no_batch_has_a_leader_epoch_that_the_metadata_lack(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer's first request to the new leader is a retry, which is not written, so it succeeds."""

    def fails(log: MetadataLog, *args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with MockKafka(data=data, brokers=2, trace="off") as kafka:
        kafka.create_topic("orders", partitions=1, replication_factor=2)
        producer = RawProducer(kafka)
        producer.send(0)
        monkeypatch.setattr(MetadataLog, "append", fails)
        kafka.kill_broker(1)
        producer.wire = client(kafka, 1)
        assert producer.send(0).base_offset == 0
        assert producer.send(1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        copy = after_kill(data, tmp_path / "copy")
        monkeypatch.undo()
        assert producer.send(1).base_offset == 1
    with MockKafka(data=copy, brokers=2) as kafka:
        assert len(kafka.records("orders")) == 1


def test_a_reassignment_in_progress_is_in_the_metadata_and_completed_at_the_start(data: Path) -> None:
    with MockKafka(data=data, brokers=3) as kafka:
        kafka.create_topic("orders", replication_factor=2)
        kafka.produce("orders", value=b"a")
        kafka.kill_broker(3)
        reassign(kafka, [3, 1])
        written = written_image(data / "node-1")
    assert written is not None
    (topic,) = (each for each in written.image.topics.values() if each.name == "orders")
    ids = {node: read_properties(data / f"node-{node}" / "meta.properties")["directory.id"] for node in (1, 2, 3)}
    there = tuple(parse_uuid(ids[node]) for node in (3, 1, 2))
    assert topic.partitions[0] == PartitionImage((3, 1, 2), (1, 2), 1, 0, (3,), (2,), there)
    with MockKafka(data=data, brokers=3) as kafka:
        assert kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].replicas) == [3, 1]
        assert [record.value for record in kafka.records("orders")] == [b"a"]


RESTARTING = [scenario.name for scenario in load() if any("restart" in row["step"]["op"] for row in scenario.steps)]


@pytest.mark.parametrize("name", RESTARTING)
def test_conformance_is_the_same_with_a_directory_and_in_memory(name: str, data: Path) -> None:
    (scenario,) = load(None, [name])
    with OwnBroker(scenario.settings, data=data) as broker:
        assert replay(scenario, broker)[1] == []


# Files


def test_segments_are_rolled_deleted_and_found_again(data: Path) -> None:
    with MockKafka(data=data, configs={"log.retention.check.interval.ms": 1000}) as kafka:
        kafka.create_topic("orders", 1, {**SMALL, "retention.bytes": "2000000"})
        for _ in range(50):
            kafka.produce("orders", value=bytes(100_000))
        folder = data / "orders-0"
        assert len(list(folder.glob("*.log"))) == 5
        kafka.clock.advance(seconds=2)
        first = kafka.records("orders")[0].offset
        assert first == 30
        bases = sorted(int(path.stem) for path in folder.glob("*.log"))
        assert bases == [30, 40]
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith("0")) == [
        "leader-epoch-checkpoint", "partition.metadata"
    ]  # fmt: skip
    for suffix in (".index", ".timeindex"):
        assert sorted(int(path.stem) for path in folder.glob(f"*{suffix}")) == bases
    with MockKafka(data=data) as kafka:
        assert kafka.records("orders")[0].offset == 30


def test_a_log_on_disk_reads_as_one_in_memory(data: Path) -> None:
    chance = random.Random(3)
    with MockKafka(data=data) as kafka:
        kafka.create_topic("orders", 1, SMALL)
        log, other = log_of(kafka), MemoryLog()
        now = 0
        for _ in range(400):
            count = chance.randint(1, 5)
            made = batch(-1, count, timestamp=chance.randint(0, 10**6), tag="x" * chance.choice((1, 700, 9000)))
            if log.active.size + len(made) > 1_000_000:
                log.roll(now)
                other.roll(now)
            stamp = read_header(made).max_timestamp
            assert log.append(made, count, 0, stamp) == other.append(made, count, 0, stamp)
        assert len(log.segments) > 2
        ends = [read_header(each).base_offset for each in other.batches()] + [other.end_offset]
        for _ in range(300):
            offset, limit = chance.randrange(other.end_offset + 2), chance.choice(ends)
            size, least = chance.choice((0, 100, 10_000, 10**6)), chance.random() < 0.5
            mine, theirs = (each.read(offset, limit, size, least) for each in (log, other))
            assert bytes(mine.data) == theirs.data, (offset, limit, size, least)
            assert mine.available == theirs.available
            if mine.data:
                *_, last = iter_batches(mine.data)
                assert log.offset_after(offset, len(mine.data)) > read_header(last).last_offset
            stamp = chance.randrange(10**6)
            assert [*map(bytes, log.batches_since(stamp, offset))] == [*map(bytes, other.batches_since(stamp, offset))]
        for offset in (ends[-5], ends[100], 0):
            log.truncate_to(offset)
            other.truncate_to(offset)
            assert log.end_offset == other.end_offset
            assert [*map(bytes, log.batches())] == [*map(bytes, other.batches())]


def produce_large(kafka: MockKafka, topic: str, count: int, size: int = 100_000) -> None:
    for _ in range(count):
        kafka.produce(topic, value=bytes(size))


def test_a_truncated_segment_that_is_written_to_again_uses_its_own_index(data: Path) -> None:
    def check(kafka: MockKafka) -> None:
        log = log_of(kafka)
        assert log.end_offset == 45
        for offset in range(log.end_offset):
            assert read_header(log.read(offset, 10**6, 200, True).data).base_offset == offset

    with MockKafka(data=data) as kafka:
        for topic in ("orders", "other"):
            kafka.create_topic(topic, 1, SMALL)
        produce_large(kafka, "orders", 30)
        produce_large(kafka, "other", 200)
        kafka._call(lambda engine: log_of(kafka).read(2, 10**6, 200, True))  # this read uses the index of `orders`
        kafka.truncate("orders", 0, 5)
        produce_large(kafka, "orders", 40, 10_000)
        for offset in range(0, 200, 10):
            kafka._call(lambda engine, at=offset: log_of(kafka, "other").read(at, 10**6, 200, True))
        kafka._call(lambda engine: check(kafka))
    with MockKafka(data=data) as kafka:
        check(kafka)


# Crashes


@pytest.mark.parametrize("seed", range(3))
def test_d1_nothing_acknowledged_is_lost_when_the_process_is_killed(data: Path, seed: int) -> None:
    flags = ["--config", "log.segment.bytes=1048576"]
    crash_once(data, seed, *flags, *(["--sync", "always"] if seed == 2 else []))


def test_a_torn_tail_is_cut_wherever_it_was_torn(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        for sequence in range(4):
            producer.send(sequence)
        copy = after_kill(data, tmp_path / "copy")
    path = copy / "orders-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    size = len(whole) // 4
    chance = random.Random(5)
    for cut in [*chance.sample(range(2 * size), 10), 2 * size - 1, size, 1]:
        place = shutil.copytree(copy, tmp_path / "cut")
        torn = whole[: len(whole) - cut]
        (place / "orders-0" / path.name).write_bytes(torn if cut % 3 else torn + bytes(cut))
        with MockKafka(data=place) as kafka:
            kept = (len(whole) - cut) // size
            assert [record.sequence for record in kafka.records("orders")] == list(range(kept))
            producer.wire = client(kafka)
            assert producer.send(kept).base_offset == kept
        if (len(whole) - cut) % size or not cut % 3:
            what = "a write left unfinished" if cut % 3 else "differ from what was written there"
            assert f"at position {kept * size} that {what} (" in caplog.text
            assert ("may have been acknowledged" in caplog.text) == (not cut % 3)
        caplog.clear()
        shutil.rmtree(place)


def test_a_crash_in_the_middle_of_rolling_and_deleting_leaves_nothing_behind(data: Path, tmp_path: Path) -> None:
    with MockKafka(data=data) as kafka:
        kafka.create_topic("orders", 1, SMALL)
        for _ in range(25):
            kafka.produce("orders", value=bytes(100_000))
        before = kafka.records("orders")
        copy = after_kill(data, tmp_path / "copy")
    folder = copy / "orders-0"
    for suffix in (".index", ".timeindex"):
        (folder / f"{10:020d}{suffix}").unlink()  # as if the broker was killed while it closed the segment
    (folder / f"{20:020d}.log.deleted").write_bytes(b"rest")
    (copy / f"other-0.{bytes(16).hex()}-delete").mkdir()
    with MockKafka(data=copy) as kafka:
        assert kafka.records("orders") == before
    assert not list(copy.rglob("*delete*"))
    assert (folder / f"{10:020d}.timeindex").stat().st_size


def test_a_restart_finds_a_file_that_a_job_removes_at_the_same_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink

    def second(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        unlink(path, missing_ok=missing_ok)

    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
        (data / "orders-0" / f"{7:020d}.index.deleted").write_bytes(b"")
        monkeypatch.setattr(Path, "unlink", second)
        kafka.restart("kill")
        monkeypatch.undo()
        assert kafka._call(lambda engine: engine.store is not None and not engine.store.is_failing)


# Bad input


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["a flipped bit", "a missing segment", "foreign bytes", "an odd checkpoint", "an odd id"])
def test_damage_is_refused_by_file_and_position_and_nothing_is_changed(data: Path, tmp_path: Path, how: str) -> None:
    with MockKafka(data=data) as kafka:
        kafka.create_topic("orders", 1, SMALL)
        for _ in range(25):
            kafka.produce("orders", value=bytes(100_000))
        copy = after_kill(data, tmp_path / "copy")
    name, position, why = f"orders-0/{20:020d}.log", "", ""
    path = copy / name
    raw = bytearray(path.read_bytes())
    if how == "a flipped bit":
        raw[150_000] ^= 4
        position = f", position {len(raw) // 5}"
        why = "the CRC of the batch does not match its bytes, and a sound batch follows"
    elif how == "foreign bytes":
        raw = bytearray(b"This is a text, and nothing that a broker has written.\n" * 50)
        position, why = ", position 0", "the magic byte of the batch is"
    elif how == "an odd checkpoint":
        name, why = "recovery-point-offset-checkpoint", "line 3 is not 'topic partition offset' but 'orders 0'"
        (copy / name).write_text("0\n1\norders 0\n")
    elif how == "an odd id":
        name, why = "orders-0/partition.metadata", "the topic id 'nonsense' is not an id"
        (copy / name).write_text("version: 0\ntopic_id: nonsense\n")
    else:
        name, why = "orders-0", "before its start offset 40; segments are missing"
        (copy / "log-start-offset-checkpoint").write_text(offsets_text("log-start-offset-checkpoint", {("orders", 0): 40}))
    path.write_bytes(raw)
    before = contents(copy)
    with pytest.raises(DamagedFile) as refused:
        MockKafka(data=copy).start()
    assert str(refused.value).startswith(f"{copy / name}{position}: ")
    assert why in str(refused.value)
    assert {name: raw for name, raw in contents(copy).items() if not name.endswith(".lock")} == {
        name: raw for name, raw in before.items() if not name.endswith(".lock")
    }
    with pytest.raises(DamagedFile):  # the reason is the same, so the first attempt has not left a lock
        MockKafka(data=copy).start()


def test_a_cut_is_reported_also_if_another_partition_is_damaged(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with MockKafka(data=data, topics=["first", "second"]) as kafka:
        for topic in ("first", "second"):
            for _ in range(3):
                kafka.produce(topic, value=b"a")
        copy = after_kill(data, tmp_path / "copy")
    torn, damaged = (copy / f"{topic}-0" / f"{0:020d}.log" for topic in ("first", "second"))
    torn.write_bytes(torn.read_bytes()[:-1])
    raw = bytearray(damaged.read_bytes())
    raw[30] ^= 1
    damaged.write_bytes(raw)
    with pytest.raises(DamagedFile, match=r"second-0.* Nothing of this log was changed; "):
        MockKafka(data=copy).start()
    assert f"{torn}: cut off " in caplog.text


def test_damage_found_by_a_read_is_an_error_of_that_partition(data: Path) -> None:
    with MockKafka(data=data, topics={"orders": 2}) as kafka:
        for partition in range(2):
            kafka.produce("orders", value=b"a", partition=partition)
        path = data / "orders-0" / f"{0:020d}.log"
        path.write_bytes(b"\xff" * path.stat().st_size)
        from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        partitions = [FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1000) for i in range(2)]
        topics = [FetchTopic(topic="orders", partitions=partitions)]
        response = client(kafka).request(FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=topics), 11)
        first, second = sole(response.responses).partitions
        assert (first.error_code, second.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        assert second.records


def test_a_second_broker_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MockKafka(data=data, topics=["orders"]):
        assert main(["serve", "--port", "0", "--data", str(data)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"wirebroker serve: {data} is in use by another broker, which holds {data / '.lock'}; ")
        with pytest.raises(DataError, match="in use by another broker"):
            MockKafka(data=data).start()
    with MockKafka(data=data) as kafka:
        assert kafka.records("orders") == []


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows a locked file cannot be opened")
@pytest.mark.parametrize("platform", ["linux", "another"])
def test_another_process_is_refused_also_after_somebody_has_read_the_lock(data: Path, platform: str) -> None:
    if platform == "linux" != sys.platform:
        pytest.skip("its locks are Linux's")
    data.mkdir()
    code = (
        "import sys\n"
        f"sys.platform = {platform!r}\n"
        "from pathlib import Path\n"
        "from wirebroker.storage.locking import DirectoryLock\n"
        f"lock = DirectoryLock(Path({str(data)!r}))\n"
        f"Path({str(data / '.lock')!r}).read_bytes()\n"
        "print('locked', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], text=True, stdin=PIPE, stdout=PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == "locked\n"
        second = subprocess.run([sys.executable, "-c", code], text=True, input="", capture_output=True, check=False)
        first.communicate("\n")
    assert second.stdout == ""
    assert f"{data} is in use by another broker" in second.stderr


def test_a_released_directory_is_free_although_a_child_was_forked(data: Path) -> None:
    data.mkdir()
    lock = DirectoryLock(data)
    forked = [os.dup(fd) for fd, _ in lock._taken]
    lock.release()
    again = DirectoryLock(data)
    assert len(again._taken) == len(forked)
    again.release()
    for fd in forked:
        os.close(fd)


@pytest.mark.parametrize("what", ["a file", "somebody's folder", "below a file"])
def test_a_place_that_is_not_a_data_directory_is_refused(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "place"
    if what == "somebody's folder":
        place.mkdir()
        (place / "thesis.txt").write_text("My thesis")
    else:
        place.write_text("My thesis")
    before = contents(tmp_path)
    assert main(["serve", "--port", "0", "--data", str(place / "data" if what == "below a file" else place)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("wirebroker serve: ")
    assert said.count("\n") == 1
    assert ("is not a data directory of Kafka" if what == "somebody's folder" else "cannot be written to") in said
    assert {name: raw for name, raw in contents(tmp_path).items() if ".lock" not in name} == before


def test_an_empty_directory_and_one_of_a_new_volume_are_taken(data: Path) -> None:
    (data / "lost+found").mkdir(parents=True)
    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
    with MockKafka(data=data) as kafka:
        assert len(kafka.records("orders")) == 1


def test_folders_without_metadata_are_served_by_their_names(data: Path) -> None:
    with MockKafka(data=data, topics={"orders": 2}) as kafka:
        kafka.produce("orders", value=b"a", partition=1)
        before = kafka.records("orders")
        topic_id = kafka._call(lambda engine: engine.cluster.topics["orders"].topic_id)
    shutil.rmtree(data / "__cluster_metadata-0")
    with pytest.raises(DamagedFile, match=r"the file has no metadata, but .* such as orders-0\. Restore"):
        MockKafka(data=data).start()
    (data / "__cluster_metadata-0").mkdir()  # the message advises this
    with MockKafka(data=data) as kafka:
        assert kafka.records("orders") == before
        assert kafka._call(lambda engine: engine.cluster.topics["orders"].topic_id) == topic_id


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_lost_metadata_is_refused(data: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
    path = data / "__cluster_metadata-0" / f"{0:020d}.log"
    path.write_bytes(b"")
    if how == "missing":
        path.unlink()
    for _ in range(2):
        with pytest.raises(DamagedFile) as refused:
            MockKafka(data=data).start()
        said = f"{path}: the file has no metadata, but there are folders of partitions, such as orders-0"
        assert str(refused.value).startswith(said)
    shutil.rmtree(path.parent)
    path.parent.mkdir()  # the message advises this
    with MockKafka(data=data) as kafka:
        assert len(kafka.records("orders")) == 1
    assert f"{data} has no metadata: the topics get the names of the folders, and default settings" in caplog.text


def test_metadata_is_not_lost_where_a_kill_came_before_the_first_topic(data: Path, tmp_path: Path) -> None:
    with MockKafka(data=data):
        copy = after_kill(data, tmp_path / "copy")
    (copy / "orders-0").mkdir()  # as if the broker was killed while it created the folders
    with MockKafka(data=copy, topics=["orders"]) as kafka:
        assert kafka.produce("orders", value=b"a") == 0
    shutil.rmtree(copy)
    copy = after_kill(data, copy)
    (copy / "__cluster_metadata-0" / "partition.metadata").unlink()
    (copy / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(b"")
    with MockKafka(data=copy, topics=["orders"]) as kafka:
        assert kafka.produce("orders", value=b"a") == 0


def test_a_folder_of_another_topic_of_that_name_is_set_aside_and_reported(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
    shutil.copytree(data / "orders-0", data / "payments-0")  # no topic has this id
    with MockKafka(data=data) as kafka:
        assert f"{data / 'payments-0'}: not served, because the metadata does not name this partition" in caplog.text
        kafka.create_topic("payments")
        assert f"{data / 'payments-0'} belongs to another topic of that name; it is renamed to payments-0." in caplog.text
        assert kafka.records("payments") == []
    (stray,) = data.glob("payments-0.*-stray")
    assert (stray / f"{0:020d}.log").stat().st_size


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("left", [[], ["node-1"], ["node-1", "node-2"]])
def test_a_first_start_that_was_killed_is_done_again(data: Path, brokers: int, left: list[str]) -> None:
    with MockKafka(data=data, brokers=brokers):
        pass
    first = data if brokers == 1 else data / "node-1"
    for place in first.iterdir():
        if place.is_dir():
            shutil.rmtree(place)
        elif not left:
            place.unlink()
    if not left:
        (first / "meta.properties.tmp").write_text("node.id")
    for place in data.glob("node-*"):
        if place.name not in left and place.name != "node-1":
            shutil.rmtree(place)
    with MockKafka(data=data, brokers=brokers, topics=["orders"]) as kafka:
        assert kafka.produce("orders", value=b"a") == 0


def test_more_brokers_than_there_are_directories_are_refused_if_there_is_a_topic(data: Path) -> None:
    with MockKafka(data=data, brokers=2, topics=["orders"]):
        pass
    with pytest.raises(DataError, match="has the data of 2 brokers; start it with --brokers 2"):
        MockKafka(data=data, brokers=3).start()
    assert not (data / "node-3").exists()


@pytest.mark.parametrize("text", ["", "cluster.id=abc\n"])
def test_ids_that_are_lost_are_refused(data: Path, text: str) -> None:
    with MockKafka(data=data, topics=["orders"]):
        pass
    (data / "meta.properties").write_text(text)
    with pytest.raises(DamagedFile, match=r"meta.properties: it has no node id"):
        MockKafka(data=data).start()


def test_checkpoints_that_a_power_cut_left_empty_count_as_missing(data: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
    for path in (*data.glob("*-checkpoint"), data / "orders-0" / "leader-epoch-checkpoint"):
        path.write_bytes(b"")
    with MockKafka(data=data) as kafka:
        assert len(kafka.records("orders")) == 1


def test_reset_does_not_delete_a_directory(data: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka, pytest.raises(RuntimeError, match="would delete the data"):
        kafka.reset()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    full = False
    write = files.append

    def append(fd: int, parts: Any, size: int) -> None:
        if full:
            write(fd, [bytes(b"".join(parts))[:70]], 70)
            raise OSError(errno.ENOSPC, "No space left on device")
        write(fd, parts, size)

    def fill(now: bool) -> None:
        nonlocal full
        full = now

    monkeypatch.setattr(files, "append", append)
    return fill


def test_a_full_disk_is_a_storage_error_and_changes_nothing(data: Path, full_disk: Callable[[bool], None]) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        for sequence in range(3):  # the first batch does not take the fast path
            assert producer.send(sequence).base_offset == sequence
            full_disk(True)
            assert producer.send(sequence + 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            full_disk(False)
        before = kafka.records("orders")
    with MockKafka(data=data) as kafka:
        assert kafka.records("orders") == before


def test_a_topic_that_cannot_be_written_down_is_not_announced(
    data: Path, full_disk: Callable[[bool], None], caplog: pytest.LogCaptureFixture
) -> None:
    asked = plain("Metadata", topics=[{"name": "made", "topic_id": bytes(16)}])
    with MockKafka(data=data, topics=["orders"]) as kafka:
        full_disk(True)
        wire = client(kafka)
        assert [sole(wire.request(asked, 9).topics).error_code for _ in range(2)] == [3, 3]
        assert f"{data} cannot be written to" in caplog.text
        full_disk(False)
        assert [sole(wire.request(asked, 9).topics).error_code for _ in range(2)] == [3, 0]
    with MockKafka(data=data) as kafka:
        assert kafka.records("made") == []


def test_the_control_says_that_a_topic_cannot_be_written_down(data: Path, full_disk: Callable[[bool], None]) -> None:
    with MockKafka(data=data, topics=["orders"], control=True) as kafka:
        control = ControlClient(kafka.control_url)
        full_disk(True)
        for response in (control.send("POST", "/topics", {"name": "made"}), control.send("DELETE", "/topics/orders")):
            assert (response.status, response.json["detail"]) == (
                503,
                "the data directory cannot be used: No space left on device",
            )
        with pytest.raises(OSError, match="No space left"):
            kafka.create_topic("made")
        full_disk(False)
        assert control.send("POST", "/topics", {"name": "made"}).status == 201
        assert control.ask("DELETE", "/topics/orders") == {}


# When data is synced to disk


class Disk:
    """Replaces fsync. It remembers the synced files, and waits if the test wants this."""

    def __init__(self) -> None:
        self.synced: list[Path] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.begun = threading.Event()

    def sync(self, path: Path) -> None:
        self.begun.set()
        assert self.goes_on.wait(5)
        self.synced.append(path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(files, "sync", made.sync)
    return made


def test_with_sync_always_a_response_waits_for_the_disk_and_others_join_it(data: Path, disk: Disk) -> None:
    with MockKafka(data=data, topics={"orders": 2}, sync="always") as kafka:
        producers = [RawProducer(kafka, partition=i % 2) for i in range(6)]
        disk.goes_on.clear()
        disk.begun.clear()
        disk.synced.clear()
        responses: list[int] = []
        threads = [threading.Thread(target=lambda p=p: responses.append(p.send(0).error_code)) for p in producers]
        threads[0].start()
        assert disk.begun.wait(5)
        for thread in threads[1:]:
            thread.start()
        kafka.wait_until(lambda: len(kafka.records("orders")) == 6)
        assert responses == []
        disk.goes_on.set()
        for thread in threads:
            thread.join()
        assert responses == [0] * 6
        logs = [path for path in disk.synced if path.suffix == ".log"]
        assert len(logs) <= 4  # six requests need at most four syncs, because one sync serves all waiting requests


def test_with_sync_always_a_segment_is_on_the_disk_before_later_batches_are_answered(data: Path, disk: Disk) -> None:
    made = build_batch([Record(0, 0, b"k", bytes(600_000))])
    with MockKafka(data=data, sync="always") as kafka:
        kafka.create_topic("orders", 1, SMALL)
        client(kafka).request(plain("ListGroups"), 4)  # this returns after the sync for the new topic

        def append(engine: Engine, count: int) -> set[str]:
            assert engine.store is not None
            for _ in range(count):
                assert engine.cluster.topics["orders"].partitions[0].append_own(made, kafka.clock.now()) == 0
            job = engine.store.sync_now()
            assert job is not None
            disk.synced.clear()
            job.work()
            assert not engine.store.jobs
            return {path.name for path in disk.synced}

        def of(offset: int) -> set[str]:
            return {f"{offset:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}

        assert kafka._call(lambda engine: append(engine, 2)) == of(0) | of(1) | {"orders-0"}
        # Before the second segment is closed, its log has already been synced, but its indexes have not.
        assert kafka._call(lambda engine: append(engine, 1)) == of(1) | of(2) | {"orders-0"}


def test_with_sync_always_the_first_batch_after_retention_is_on_the_disk_before_it_is_answered(data: Path, disk: Disk) -> None:
    configs = {"log.retention.ms": 40_000, "log.retention.check.interval.ms": 1000}
    with MockKafka(data=data, topics=["orders"], sync="always", configs=configs, clock="frozen") as kafka:
        producer = RawProducer(kafka)
        producer.send(0)
        kafka.clock.advance(seconds=60)
        client(kafka).request(plain("ListGroups"), 4)  # this returns after a sync; the new segment is still empty
        disk.synced.clear()
        assert producer.send(1).base_offset == 1
        assert data / "orders-0" / f"{1:020d}.log" in disk.synced


def test_with_sync_always_a_topic_is_on_the_disk_with_its_folders(data: Path, disk: Disk) -> None:
    with MockKafka(data=data, sync="always") as kafka:
        disk.synced.clear()
        assert sole(client(kafka).request(create_topic("made", timeout_ms=1000), 7).topics).error_code == 0
        assert {str(path.relative_to(data)) for path in disk.synced} == {
            ".", "made-0", "made-0/partition.metadata", f"__cluster_metadata-0/{0:020d}.log",
            *(f"made-0/{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")),
        }  # fmt: skip


def test_with_sync_always_a_batch_that_survived_a_kill_is_on_the_disk_before_its_retry_is_answered(
    data: Path, tmp_path: Path, disk: Disk
) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        producer.send(0)
        copy = after_kill(data, tmp_path / "copy")
    disk.synced.clear()
    with MockKafka(data=copy, sync="always") as kafka:
        producer.wire = client(kafka)
        assert producer.send(0).base_offset == 0  # a retry of a batch that was not synced
        assert copy / "orders-0" / f"{0:020d}.log" in disk.synced


def test_a_response_does_not_wait_for_a_compaction(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    ended = []

    def compact(log: Any, task: Any) -> Any:
        begun.set()
        ended.append(goes_on.wait(5))
        raise FileNotFoundError("it was stopped")

    monkeypatch.setattr(FolderLog, "compact", compact)
    configs = {"log.cleaner.backoff.ms": 10}
    with MockKafka(data=data, topics=["orders"], sync="always", configs=configs) as kafka:
        kafka.create_topic("kept", 1, {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        for _ in range(15):
            kafka.produce("kept", key=b"k", value=bytes(100_000))
        assert begun.wait(20)
        assert RawProducer(kafka).send(0).base_offset == 0
        assert not ended
        goes_on.set()


def test_an_id_that_a_power_cut_left_empty_is_written_again(data: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
    path = data / "orders-0" / "partition.metadata"
    before = path.read_bytes()
    path.write_bytes(b"")
    with MockKafka(data=data) as kafka:
        assert len(kafka.records("orders")) == 1
        assert path.read_bytes() == before


def test_with_sync_interval_it_is_put_there_again_and_again(data: Path, disk: Disk) -> None:
    settings = {"log.flush.interval.ms": 500}
    with MockKafka(data=data, topics=["orders"], sync="interval", configs=settings, clock="frozen") as kafka:
        folder = data / "orders-0"
        kafka.clock.advance(seconds=1)
        kafka.wait_until(lambda: folder in disk.synced)  # a new folder must be synced
        disk.synced.clear()
        kafka.produce("orders", value=b"a")
        assert folder not in disk.synced
        kafka.clock.advance(seconds=1)
        kafka.wait_until(lambda: kafka._call(lambda engine: log_of(kafka).recovery_point) == 1)
        assert folder in disk.synced


def test_a_log_that_is_truncated_during_a_sync_does_not_count_as_synced_beyond_its_end(data: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        for _ in range(3):
            kafka.produce("orders", value=b"a")

        def truncated(engine: Engine) -> tuple[int, int]:
            job = None if engine.store is None else engine.store.sync_now()
            assert job is not None
            job.work()
            truncate(engine.cluster.topics["orders"].partitions[0], 1, engine.now)
            job.done()
            return log.recovery_point, log.end_offset

        log = log_of(kafka)
        assert kafka._call(truncated) == (1, 1)


def test_without_sync_only_closed_segments_are_put_there(data: Path, disk: Disk) -> None:
    with MockKafka(data=data) as kafka:
        kafka.create_topic("orders", 1, SMALL)
        disk.synced.clear()
        for _ in range(15):
            kafka.produce("orders", value=bytes(100_000))
        kafka.wait_until(lambda: kafka._call(lambda engine: log_of(kafka).recovery_point) == 10)
        assert {path.name for path in disk.synced if path.suffix == ".log"} == {f"{0:020d}.log"}


def test_with_a_failing_disk_no_client_gets_an_acknowledgement(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with MockKafka(data=data, topics=["orders"], sync="always") as kafka:
        producer = RawProducer(kafka)

        def fail(path: Path) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(files, "sync", fail)
        with pytest.raises(Exception, match=r"closed|reset"):
            producer.send(0)
        assert f"{data} cannot be synced" in caplog.text
        monkeypatch.undo()


def test_describe_log_dirs_names_the_directory(data: Path) -> None:
    with MockKafka(data=data, topics=["orders"]) as kafka:
        kafka.produce("orders", value=bytes(100))
        (told,) = client(kafka).request(plain("DescribeLogDirs", topics=None), 2).results
    assert told.log_dir == str(data.resolve())
    assert only(told).partition_size == (data / "orders-0" / f"{0:020d}.log").stat().st_size


@pytest.mark.parametrize("ends", ["clean", "kill"])
def test_d2_records_that_a_failover_cut_off_do_not_come_back_from_the_directory(data: Path, tmp_path: Path, ends: str) -> None:
    with MockKafka(data=data, brokers=3) as kafka:
        kafka.create_topic("orders", partitions=1, replication_factor=3, configs=SMALL)
        producer = RawProducer(kafka)
        for sequence in range(3):
            assert producer.send(sequence, acks=1).base_offset == sequence
        for node in (2, 3):
            kafka.freeze_replica("orders", 0, node)
        for _ in range(15):  # makes a second segment, which the truncation removes
            kafka.produce("orders", value=bytes(100_000))
        producer.send(3, acks=1)
        kafka.kill_broker(1)
        producer.wire = client(kafka, 1)
        assert producer.send(3, acks=1).base_offset == 3
        kafka.start_broker(1)
        kafka.thaw_replica("orders", 0, 3)
        before = kafka.records("orders")
        assert [record.sequence for record in before] == [0, 1, 2, 3]
        state = kafka.partition("orders")
        if ends == "kill":
            data = after_kill(data, tmp_path / "copy")
    with MockKafka(data=data, brokers=3) as kafka:
        assert kafka.records("orders") == before
        assert kafka.partition("orders").leader_epoch > state.leader_epoch
        producer.wire = client(kafka, kafka.partition("orders").leader - 1)
        assert producer.send(3).base_offset == 3
        assert producer.send(4).base_offset == 4
        epochs = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].epochs.starts)
        assert [start for _, start in epochs] == sorted({start for _, start in epochs})


@pytest.mark.parametrize("where", ["memory", "directory"])
def test_d2_after_a_kill_a_new_leader_has_the_log_start_of_its_own_replica(data: Path, tmp_path: Path, where: str) -> None:
    """The former leader's log start was in a checkpoint, and is after the end of the new leader's log."""
    with MockKafka(data=data if where == "directory" else None, brokers=2, clock="frozen") as kafka:
        unclean = {"unclean.leader.election.enable": "true"}
        kafka.create_topic("orders", partitions=1, replication_factor=2, configs=unclean)
        kafka.produce("orders", value=b"a")
        kafka.freeze_replica("orders", 0, 2)
        for _ in range(2):
            RawProducer(kafka).send(0, 1, acks=1)
        for start in (3, 4):
            kafka.clock.advance(seconds=70)
            kafka._change(lambda engine, now, to=start: engine.cluster.topics["orders"].partitions[0].delete_records(to, now))
        if where == "directory":
            kafka._change(lambda engine, _: engine.store.checkpoint() if engine.store is not None else None)
        kafka.kill_broker(1)
        kafka.elect_leader("orders", 0, unclean=True)

        def offsets() -> tuple[int, int, int]:
            state = kafka.partition("orders")
            return state.log_start_offset, state.high_watermark, state.log_end_offset

        assert offsets() == (0, 1, 1)
        copy = after_kill(data, tmp_path / "copy") if where == "directory" else None
        kafka.restart("kill")
        assert offsets() == (0, 1, 1)
    if copy is not None:
        with MockKafka(data=copy, brokers=2) as kafka:
            assert offsets() == (0, 1, 1)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_a_coordinators_record_that_cannot_be_read_is_one_sentence(
    topic: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MockKafka(data=data) as kafka:
        kafka._change(lambda engine, _: engine.cluster.create_internal_topic(topic, kafka.clock.now()))
        kind = b"\0\0" if topic == "__transaction_state" else b"\0\1"
        made = build_batch([Record(0, 0, kind + b"\0\xff", b"\0\1")])

        def store(engine: Any) -> None:
            assert engine.cluster.topics[topic].partitions[1].append_own(made, kafka.clock.now()) == 0

        kafka._change(lambda engine, _: store(engine))
    assert main(["serve", "--port", "0", "--data", str(data)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"wirebroker serve: {topic}-1 holds a record that cannot be read: ")
    assert said.count("\n") == 1


def test_the_setting_node_id_numbers_the_brokers(data: Path) -> None:
    for number in range(2):
        with MockKafka(data=data, configs={"node.id": 5}, topics=["orders"]) as kafka:
            kafka.produce("orders", value=b"x")
            assert len(kafka.records("orders")) == number + 1
            assert kafka.partition("orders").leader == 5
    assert "node.id=5" in (data / "meta.properties").read_text()
    with MockKafka(data=data) as kafka:
        assert (len(kafka.records("orders")), kafka.partition("orders").leader) == (2, 1)
