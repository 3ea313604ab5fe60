"""Compaction of closed segments keeps the last record of each key. Apart from the removed records, nothing changes for
consumers.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.batches import Record, build_batch, read_header
from kafkawire.disk.checkpoints import offsets_text
from kafkawire.disk.names import LOG
from wirebroker.core.partition import EndMarker, Partition
from wirebroker.core.truncation import truncate
from wirebroker.deeds.broker import EngineBroker
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka, StoredRecord
from wirebroker.storage.log import FolderLog
from wirebroker.storage.store import FolderStore
from wirebroker.storage.upkeep import Job
from wirebroker.testing.operations import stored_records
from wirekit import NOW

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
SECOND = {"log.cleaner.backoff.ms": 1000}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(params=["disk", "memory"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Runs each test twice, with a data directory and with logs in memory, because the same rules apply to both."""
    return tmp_path / "data" if request.param == "disk" else None


def partition_of(kafka: MockKafka) -> Partition:
    return kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0])


def write(kafka: MockKafka, records: list[tuple[bytes, bytes | None]], **options: Any) -> None:
    made = [Record(i, 0, key, value) for i, (key, value) in enumerate(records)]
    batch = build_batch(made, base_timestamp=kafka.clock.now(), **options)

    def store(engine: Any) -> None:
        partition = engine.cluster.topics["orders"].partitions[0]
        assert partition.append(memoryview(batch), kafka.clock.now(), 9, verified=True).error_code == 0

    kafka._change(lambda engine, _: store(engine))


def last_values(records: list[StoredRecord]) -> dict[bytes | None, StoredRecord]:
    return {record.key: record for record in records if not record.control}


def fill(kafka: MockKafka, chance: random.Random, batches: int = 60) -> None:
    for _ in range(batches):
        records: list[tuple[bytes, bytes | None]] = [
            (b"k%d" % chance.randrange(40), chance.randbytes(12_000)) for _ in range(5)
        ]
        write(kafka, records, compression=chance.choice((0, 0, 1, 4)))


def compacted(kafka: MockKafka) -> None:
    """Waits until the cleaner has compacted the log."""
    before = partition_of(kafka).log.size
    kafka.clock.advance(seconds=2)
    kafka.wait_until(lambda: partition_of(kafka).log.size < before)


@pytest.mark.parametrize("seed", range(3))
def test_the_last_record_of_each_key_stays_with_its_offset(where: Path | None, seed: int) -> None:
    chance = random.Random(seed)
    with MockKafka(data=where, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        for _ in range(2):
            fill(kafka, chance)
            before, end = kafka.records("orders"), partition_of(kafka).log_end_offset
            compacted(kafka)
            after = kafka.records("orders")
            assert set(after) < set(before)
            assert last_values(after) == last_values(before)
            active = partition_of(kafka).log.active.base_offset
            keys = [record.key for record in after if record.offset < active]
            assert len(keys) - len(set(keys)) < 15  # keys may occur again in segments that have not been cleaned yet
            assert partition_of(kafka).log_end_offset == end
        log = partition_of(kafka).log
        assert log.cleaned_to == log.active.base_offset
    if where is None:
        return
    assert isinstance(log, FolderLog)
    assert log.directory.cleaned["orders", 0] == log.active.base_offset
    checkpoint = (where / "cleaner-offset-checkpoint").read_text()
    assert checkpoint == offsets_text("cleaner-offset-checkpoint", {("orders", 0): log.active.base_offset})
    with MockKafka(data=where) as kafka:
        assert kafka.records("orders") == after


def test_a_tombstone_stays_for_a_while(where: Path | None) -> None:
    with MockKafka(data=where, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, {**COMPACTED, "delete.retention.ms": "60000"})
        write(kafka, [(b"gone", b"a"), (b"kept", b"b")])
        write(kafka, [(b"gone", None)])
        written = kafka.records("orders")[2].timestamp
        chance = random.Random(1)
        fill(kafka, chance, 40)
        compacted(kafka)
        (tombstone,) = [record for record in kafka.records("orders") if record.key == b"gone"]
        assert (tombstone.offset, tombstone.value) == (2, None)
        assert tombstone.timestamp == written  # the record's time stays, although its batch was rewritten
        kafka.clock.advance(seconds=70)
        fill(kafka, chance, 40)
        compacted(kafka)
        assert {record.key for record in kafka.records("orders")} >= {b"kept"}
        assert b"gone" not in {record.key for record in kafka.records("orders")}


def end(kafka: MockKafka, producer_id: int, epoch: int, commit: bool) -> None:
    marker = EndMarker(producer_id, epoch, commit, 0, 0)
    kafka._change(lambda engine, _: engine.cluster.topics["orders"].partitions[0].append_marker(marker, kafka.clock.now()))


def test_aborted_records_go_markers_follow_and_producers_are_remembered(data: Path) -> None:
    with MockKafka(data=data, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, {**COMPACTED, "delete.retention.ms": "60000"})
        write(kafka, [(b"a", b"committed")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        end(kafka, 7, 0, True)
        write(kafka, [(b"a", b"aborted")], producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
        end(kafka, 8, 0, False)
        write(kafka, [(b"k1", b"old")], producer_id=9, producer_epoch=0, base_sequence=5)
        chance = random.Random(1)
        fill(kafka, chance, 40)
        compacted(kafka)
        records = kafka.records("orders")
        assert [record.value for record in records if record.key == b"a"] == [b"committed"]
        assert [record.offset for record in records if record.control] == [1, 3]
        places = [read_header(batch) for batch in partition_of(kafka).log.batches()]
        assert {(h.producer_id, h.records_count, h.base_sequence) for h in places if h.producer_id in (8, 9)} >= {
            (8, 0, 0), (9, 0, 5)
        }  # fmt: skip
        before = kafka.producers("orders", 0)
        kafka.clock.advance(seconds=70)
        fill(kafka, chance, 40)
        compacted(kafka)
        assert [record.offset for record in kafka.records("orders") if record.control] == [1, 3]
        kafka.clock.advance(seconds=70)  # the last run left no record of the marker's transaction
        fill(kafka, chance, 40)
        compacted(kafka)
        assert [record.value for record in kafka.records("orders") if record.key == b"a"] == [b"committed"]
    for snapshot in (data / "orders-0").glob("*.snapshot"):
        snapshot.unlink()
    (data / ".kafka_cleanshutdown").unlink()  # the next start must read the batches to restore the producers
    with MockKafka(data=data) as kafka:
        after = kafka.producers("orders", 0)
        assert {key: (e.producer_epoch, e.last_sequence) for key, e in after.items()} == {
            key: (e.producer_epoch, e.last_sequence) for key, e in before.items()
        }


def test_after_a_kill_gaps_are_not_damage_and_after_a_truncation_new_batches_are_compacted(data: Path, tmp_path: Path) -> None:
    with MockKafka(data=data, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        chance = random.Random(1)
        fill(kafka, chance)
        compacted(kafka)
        copy = shutil.copytree(data, tmp_path / "copy")  # as after kill −9
        kafka.truncate("orders", 0, 100)
        assert partition_of(kafka).log.cleaned_to == partition_of(kafka).log_end_offset
        fill(kafka, chance)
        compacted(kafka)
    with MockKafka(data=copy) as kafka:
        assert [finding for finding in kafka.audit().findings if finding.severity == "certain"] == []


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("cut", [2, 7])
def test_a_log_that_is_truncated_between_its_compacted_records_opens_again(
    cut: int, killed: bool, data: Path, tmp_path: Path
) -> None:
    """Compaction leaves the records 5 to 9 of the first ten records. They are one batch, so a cut at 7 removes this batch."""
    with MockKafka(data=data, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        for _ in range(2):
            write(kafka, [(b"k%d" % number, b"v") for number in range(5)])
        kafka._change(lambda engine, now: engine.cluster.topics["orders"].partitions[0].log.roll(now))
        compacted(kafka)
        kafka.truncate("orders", 0, cut)
        end = partition_of(kafka).log_end_offset
        assert (end, kafka.records("orders")) == (min(cut, 5), [])
        copy = shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("*.deleted"))  # as after kill −9
    with MockKafka(data=copy if killed else data) as kafka:
        assert (partition_of(kafka).log_end_offset, kafka.records("orders")) == (end, [])
        write(kafka, [(b"k", b"after")])
        assert [record.offset for record in kafka.records("orders")] == [end]


@pytest.mark.parametrize("what", ["records", "topic"])
def test_segments_that_are_deleted_before_their_compaction_do_not_end_it(
    what: str, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with MockKafka(data=data, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        chance = random.Random(1)
        fill(kafka, chance)

        def delete(engine: Engine) -> None:
            assert engine.store is not None
            engine.store.compact(NOW)
            if what == "records":
                engine.cluster.topics["orders"].partitions[0].delete_records(100, NOW)
            else:
                EngineBroker(engine).delete_topic("orders")
            engine.store.run_jobs()

        kafka._change(lambda engine, _: delete(engine))
        if what == "topic":
            kafka.create_topic("orders", 1, COMPACTED)
            assert partition_of(kafka).log.cleaned_to == 0
        fill(kafka, chance)
        compacted(kafka)
        assert "not compacted" not in caplog.text


def test_a_commit_after_an_abort_is_compacted_and_stays(where: Path | None) -> None:
    chance = random.Random(1)
    with MockKafka(data=where, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, {**COMPACTED, "delete.retention.ms": "1000"})
        sequence = 0

        def transaction(value: bytes, commit: bool) -> None:
            nonlocal sequence
            write(kafka, [(b"a", value)], producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            sequence += 1
            end(kafka, 7, 0, commit)

        def committed() -> list[bytes | None]:
            return [record.value for record in kafka.records("orders") if record.key == b"a"]

        transaction(b"aborted", False)
        for value in (b"1", b"2", b"3", b"4"):
            transaction(value, True)
            fill(kafka, chance, 40)
            compacted(kafka)
            assert committed() == [value]
        transactions = partition_of(kafka).transactions
        assert transactions.aborted_between(0, 10**6) == []  # otherwise consumers would skip records after the removed marker


def test_a_truncation_while_it_runs_wins(data: Path) -> None:
    with MockKafka(data=data, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        fill(kafka, random.Random(1))

        def go(engine: Engine) -> list[StoredRecord]:
            store, partition = engine.store, engine.cluster.topics["orders"].partitions[0]
            assert store is not None
            store.compact(NOW)
            job = store.jobs.pop()
            job.work()
            truncate(partition, 60, NOW)
            job.done()
            assert partition.append_own(build_batch([Record(0, 0, b"after", b"v")], base_timestamp=NOW), NOW) == 0
            return list(stored_records(partition))

        before = kafka.records("orders")
        after = kafka._change(lambda engine, _: go(engine))
        assert after[:-1] == before[:60]
        assert partition_of(kafka).log.cleaned_to == 0
    with MockKafka(data=data) as kafka:
        assert kafka.records("orders") == after


def test_an_open_transaction_stops_it(where: Path | None) -> None:
    with MockKafka(data=where, configs=SECOND, clock="frozen") as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        write(kafka, [(b"a", b"open")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        fill(kafka, random.Random(1), 40)
        before = kafka.records("orders")
        kafka.clock.advance(seconds=2)
        assert kafka.records("orders") == before
        assert partition_of(kafka).last_stable_offset == 0
        end(kafka, 7, 0, True)
        compacted(kafka)


def crash_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets `steps` renames and removals succeed, and makes all later renames and removals fail."""
    left = steps
    replace, unlink = Path.replace, Path.unlink

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError("the machine is gone")

    def replaced(self: Path, to: Any) -> Any:
        step()
        return replace(self, to)

    def unlinked(self: Path, missing_ok: bool = False) -> None:
        step()
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(Path, "unlink", unlinked)
    return monkeypatch.undo


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled") / "data"
    with MockKafka(data=place) as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        fill(kafka, random.Random(2))
        assert len(partition_of(kafka).log.segments) > 3
    return place


def opened(place: Path) -> tuple[FolderStore, Partition]:
    store = FolderStore(place, random.Random(1).randbytes)
    engine = Engine(NOW, random.Random(1).randbytes, store=store)
    return store, engine.cluster.topics["orders"].partitions[0]


@pytest.mark.parametrize("steps", range(1, 19))
def test_wherever_it_is_cut_short_the_log_is_whole(
    steps: int, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, partition = opened(shutil.copytree(filled, tmp_path / "data"))
    before, end_offset = list(stored_records(partition)), partition.log_end_offset
    store.compact(NOW)
    undo = crash_after(steps, monkeypatch)
    crashed = False
    try:
        store.run_jobs()
    except OSError:
        crashed = True
    undo()
    store.abandon()
    store, partition = opened(shutil.copytree(tmp_path / "data", tmp_path / "copy"))
    after = list(stored_records(partition))
    assert set(after) <= set(before)
    assert last_values(after) == last_values(before)
    assert partition.log_end_offset == end_offset
    assert set(range(end_offset)) - {record.offset for record in after} <= set(range(partition.log.cleaned_to))
    store.close(NOW)
    folder = tmp_path / "copy" / "orders-0"
    assert not [path for path in folder.iterdir() if path.name.endswith((".cleaned", ".swap"))]
    assert all(path.with_suffix(".index").exists() for path in folder.glob(f"*{LOG}"))
    assert crashed or len(after) < len(before)
    assert crashed or steps > 10


def test_clients_are_served_while_the_control_moves_the_clock_past_long_jobs(data: Path) -> None:
    begun, done = threading.Event(), threading.Event()
    order: list[str] = []

    def long_job(_: int) -> None:
        order.append("the job begins")
        store.jobs.append(Job(lambda: (begun.set(), done.wait(30)), lambda: order.append("the job is done"), apart=True))

    with MockKafka(data=data, topics={"orders": 1}) as kafka:
        store = kafka._call(lambda engine: engine.store)
        now = kafka.clock.now()
        kafka._change(lambda engine, _: engine.timers.at(now + 60_000, long_job))
        kafka._change(lambda engine, _: engine.timers.at(now + 61_000, lambda _: order.append("a later timer")))
        moved = asyncio.run_coroutine_threadsafe(kafka._running.advance_beside(120_000), kafka._loop)
        assert begun.wait(30)
        kafka.produce("orders", value=b"v")
        assert order == ["the job begins"]
        done.set()
        moved.result(30)
        assert order == ["the job begins", "the job is done", "a later timer"]
        kafka._change(lambda engine, _: engine.timers.at(kafka.clock.now() + 20, lambda _: order.append("the next")))
        kafka.wait_until(lambda: order[-1] == "the next")
