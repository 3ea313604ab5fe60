"""Compaction of logs in memory has the same result as on disk, runs in slices, and keeps the internal topics small."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.batches import Record, build_batch, read_header
from requesting import end_txn, init_producer_id, offset_commit, offset_fetch, plain
from responses import only
from wirebroker.core.logs.memory import INTERNAL_SEGMENT, MemoryLog
from wirebroker.core.partition import EndMarker, Partition
from wirebroker.core.truncation import truncate
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirebroker.storage.store import FolderStore
from wirebroker.testing.operations import stored_records
from wirekit import NOW, client

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
LARGE = "m" * 4000


def engine_with(topic: dict[str, str], store: FolderStore | None = None) -> tuple[Engine, Partition]:
    engine = Engine(NOW, os.urandom, store=store)
    return engine, engine.cluster.create_topic("orders", NOW, partitions=1, overrides=topic).partitions[0]


def memory_log(partition: Partition) -> MemoryLog:
    assert isinstance(partition.log, MemoryLog)
    return partition.log


def batches(log: Any) -> list[bytes]:
    return [bytes(batch) for batch in log.batches()]


class Writer:
    """Writes the same batches to several partitions: batches without a producer id, and transactions of several producers."""

    def __init__(self, seed: int, *partitions: Partition, aborts: bool = True) -> None:
        self.aborts = aborts
        self.chance = random.Random(seed)
        self.partitions = partitions
        self._sequences = dict.fromkeys(range(3), 0)

    def write(self, count: int, now: int, *, plain: bool = False) -> None:
        for _ in range(count):
            records = [self._record(i) for i in range(self.chance.randint(1, 4))]
            producer = None if plain else self.chance.choice((None, 0, 1, 2))
            if producer is None:
                self._append(build_batch(records, base_timestamp=now, compression=self.chance.choice((0, 1, 4))), now)
                continue
            made = build_batch(
                records, base_timestamp=now, producer_id=producer, producer_epoch=0,
                base_sequence=self._sequences[producer], transactional=True,
            )  # fmt: skip
            self._sequences[producer] += len(records)
            self._append(made, now)
            for partition in self.partitions:
                partition.append_marker(EndMarker(producer, 0, not self.aborts or bool(len(records) % 2), 0, 0), now)

    def _record(self, delta: int) -> Record:
        value = None if self.chance.random() < 0.1 else self.chance.randbytes(self.chance.choice((10, 8000)))
        return Record(delta, 0, b"k%d" % self.chance.randrange(30), value)

    def _append(self, batch: bytes, now: int) -> None:
        for partition in self.partitions:
            assert partition.append(memoryview(batch), now, 9, verified=True).error_code == 0


@pytest.mark.parametrize("seed", range(2))
def test_compaction_keeps_the_same_records_as_on_disk(seed: int, tmp_path: Path) -> None:
    store = FolderStore(tmp_path, os.urandom)
    on_disk, theirs = engine_with(COMPACTED, store)
    in_memory, mine = engine_with(COMPACTED)
    writer, now = Writer(seed, mine, theirs), NOW
    for _ in range(3):
        before = memory_log(mine).size
        writer.write(400, now)
        now += 40_000_000
        in_memory.maintenance.compaction.begin(now)
        store.compact(now)
        store.run_jobs()
        assert batches(mine.log) == batches(theirs.log)
        assert mine.log.cleaned_to == theirs.log.cleaned_to > 0
        assert mine.transactions.aborted_between(0, 10**9) == theirs.transactions.aborted_between(0, 10**9)
        assert memory_log(mine).size < before + 3_000_000
    ends = [read_header(batch).base_offset for batch in mine.log.batches()] + [mine.log_end_offset]
    for _ in range(100):
        arguments = (
            writer.chance.randrange(mine.log_end_offset + 2), writer.chance.choice(ends),
            writer.chance.choice((0, 100, 10**6)), writer.chance.random() < 0.5,
        )  # fmt: skip
        ours, other = mine.log.read(*arguments), theirs.log.read(*arguments)
        assert bytes(other.data)[: len(ours.data)] == ours.data, arguments
        assert bool(other.data) == bool(ours.data), arguments
        stamp, start = NOW + writer.chance.randrange(now - NOW), min(arguments[0], mine.log_end_offset - 1)
        since = [bytes(batch) for batch in mine.log.batches_since(stamp, start)]
        assert since == [bytes(batch) for batch in theirs.log.batches_since(stamp, start)]
    for offset in (mine.log_end_offset - 3, mine.log.cleaned_to // 2 + 1, 0):
        mine.log.truncate_to(offset)
        assert mine.log.end_offset <= offset
        assert all(read_header(batch).last_offset < offset for batch in mine.log.batches())
        writer.partitions = (mine,)
        assert mine.append_own(build_batch([Record(0, 0, b"k", b"v")], base_timestamp=now), now) == 0
        assert bytes(mine.log.read(mine.log_end_offset - 1, mine.log_end_offset, 10**6, True).data) == batches(mine.log)[-1]
    store.abandon()
    assert on_disk.store is store


def values(partition: Partition) -> dict[bytes | None, bytes | None]:
    """Returns the latest value of each key. Leaves out keys whose latest record is a tombstone."""
    latest = {each.key: each.value for each in stored_records(partition) if not each.control}
    return {key: value for key, value in latest.items() if value is not None}


CHANGES: list[Callable[[Partition, int], object]] = [
    lambda partition, _: partition.delete_records(partition.log_end_offset // 2, NOW),
    lambda partition, now: truncate(partition, partition.log_end_offset // 2, now),
    lambda partition, now: truncate(partition, 3, now),
    lambda partition, now: truncate(partition, partition.log.cleaned_to - 20, now),
    lambda partition, now: partition.log.start_at(partition.log_end_offset, now),
    lambda partition, now: partition.delete(now),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
@pytest.mark.parametrize("slices", [0, 1, 3, 5])
def test_what_happens_between_two_slices_wins(slices: int, change: int) -> None:
    engine, partition = engine_with(COMPACTED)
    writer = Writer(change, partition, aborts=False)
    compaction = engine.maintenance.compaction
    writer.write(600, NOW)
    compaction.begin(NOW)
    assert partition.log.cleaned_to > 0
    writer.write(400, NOW)
    engine.timers.in_slices = True
    compaction.begin(NOW)
    for _ in range(slices):
        engine.timers._proceed()
        assert engine.timers.busy
    CHANGES[change](partition, NOW)
    writer.write(0 if partition.deleted else 3, NOW, plain=True)
    before, end = values(partition), partition.log_end_offset
    held = partition.log.batches()
    copies = [bytes(batch) for batch in held]
    engine.tick(NOW)
    assert not engine.timers.busy
    assert (values(partition), partition.log_end_offset) == (before, end)
    assert [bytes(batch) for batch in held] == copies, "compaction does not change batches that a slow reader is still sending"


def test_compaction_is_done_in_slices() -> None:
    engine, partition = engine_with(COMPACTED)
    Writer(1, partition).write(600, NOW)
    engine.timers.in_slices = True
    engine.maintenance.compaction.begin(NOW)
    slices = 0
    while engine.timers.busy:
        engine.timers._proceed()
        slices += 1
    assert partition.log.cleaned_to > 0
    assert slices > 8


@pytest.mark.parametrize("on_disk", [False, True])
def test_an_advance_of_the_clock_leaves_nothing_to_compact(on_disk: bool, tmp_path: Path) -> None:
    with MockKafka(clock="frozen", data=tmp_path if on_disk else None) as kafka:
        kafka.create_topic("orders", 1, COMPACTED)
        partition = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0])
        kafka._call(lambda engine: Writer(1, partition, aborts=False).write(600, kafka.clock.now()))
        before = values(partition)
        kafka.clock.advance(seconds=15)
        assert partition.log.cleaned_to == partition.log.active.base_offset > 0
        assert values(partition) == before
        assert [finding for finding in kafka.audit().findings if finding.severity == "certain"] == []


def key_written(partition: Partition, timestamp: int, now: int, key: bytes = b"k") -> None:
    batch = build_batch([Record(0, 0, key, b"v")], base_timestamp=timestamp)
    assert partition.append(memoryview(batch), now, 9).error_code == 0


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_segment_of_a_compacted_topic_is_closed_after_the_longest_lag(policy: str) -> None:
    """The lag is the difference between two timestamps: of the segment's first record, and of the next batch. The clock does
    not matter.
    """
    _, partition = engine_with({"cleanup.policy": policy, "max.compaction.lag.ms": "100"})
    for timestamp in (0, 100, 101, 102):
        key_written(partition, NOW + timestamp, NOW)
    bases = [segment.base_offset for segment in partition.log.segments]
    assert bases == ([0, 2] if policy == "compact" else [0])


def test_a_segment_waits_for_the_shortest_lag_and_goes_with_the_longest() -> None:
    lags = {"min.compaction.lag.ms": "1000", "max.compaction.lag.ms": "60000", "min.cleanable.dirty.ratio": "1"}
    engine, partition = engine_with({"cleanup.policy": "compact", "segment.ms": "100"} | lags)
    for timestamp in (0, 50, 200):
        key_written(partition, NOW + timestamp, NOW + timestamp)
    compaction = engine.maintenance.compaction
    for after, cleaned_to in ((1049, 0), (60_000, 0), (60_001, 2)):
        compaction.begin(NOW + after)
        assert partition.log.cleaned_to == cleaned_to, after
    key_written(partition, NOW + 10**6, NOW + 10**6)
    engine.cluster.topics["orders"].partitions[0].configs.replace(
        {**partition.configs.overrides, "min.cleanable.dirty.ratio": "0"}
    )
    compaction.begin(NOW + 1199)
    assert partition.log.cleaned_to == 2, "the next record is younger than min.compaction.lag.ms"
    compaction.begin(NOW + 1200)
    assert partition.log.cleaned_to == 3


def test_a_later_change_of_the_policy_takes_effect() -> None:
    engine, partition = engine_with({"segment.bytes": "1048576", "retention.ms": "-1"})
    Writer(1, partition).write(600, NOW)
    partition.configs.replace({**partition.configs.overrides, "cleanup.policy": "compact"})
    engine.tick(NOW + 400_000)
    assert partition.log.cleaned_to > 0


def test_an_unreadable_log_is_reported_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    engine, partition = engine_with(COMPACTED)
    damaged = build_batch([Record(0, 0, b"k", bytes(9000))], base_timestamp=NOW, compression=1)[:-100]
    for _ in range(300):
        partition.append_own(build_batch([Record(0, 0, b"k", bytes(9000))], base_timestamp=NOW), NOW)
        partition.log.append(damaged, 1, 0, NOW)
    count = len(batches(partition.log))
    for _ in range(3):
        engine.maintenance.compaction.consider(partition)
        engine.tick(NOW + 20_000)
    assert len(batches(partition.log)) == count
    (warning,) = caplog.messages
    assert warning.startswith("orders-0 is no longer compacted: ")


# The coordinators' topics


def size_of(kafka: MockKafka, topic: str) -> int:
    return kafka._call(lambda engine: sum(each.log.size for each in engine.cluster.topics[topic].partitions))


def committed(wire: Any, offset: int) -> None:
    response = wire.request(offset_commit("group", offset, metadata=LARGE), 7)
    assert only(response).error_code == 0


@pytest.mark.parametrize("clock", ["system", "frozen"])
def test_endless_commits_use_bounded_memory(clock: str) -> None:
    with MockKafka(clock=clock, topics=["orders"]) as kafka:
        wire = client(kafka)
        wire.request(plain("FindCoordinator", key="group", key_type=0), 2)
        largest = 0
        for offset in range(1, 801):
            committed(wire, offset)
            if not offset % 50:
                largest = max(largest, size_of(kafka, "__consumer_offsets"))
        assert largest < 3 * INTERNAL_SEGMENT < 800 * len(LARGE)
        kafka.restart("kill")
        response = client(kafka).request(offset_fetch("group"), 5)
        assert only(response).committed_offset == 800


def test_endless_transactions_use_bounded_memory() -> None:
    name = "t" * 1000
    with MockKafka(clock="frozen", topics=["orders"]) as kafka:
        wire = client(kafka)
        wire.request(plain("FindCoordinator", key=name, key_type=1), 2)
        request = init_producer_id(name)
        for _ in range(1200):
            epoch = wire.request(request, 3).producer_epoch
        assert size_of(kafka, "__transaction_state") < 2 * INTERNAL_SEGMENT < 1200 * len(name)
        assert epoch == 1199
        ended = end_txn(name, (0, epoch), True)
        assert wire.request(ended, 3).error_code == 48
