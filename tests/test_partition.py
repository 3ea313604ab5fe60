"""If a batch is the next in order, a partition's fast path has the same result as `append`."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batches import HEADER_SIZE, Record, build_batch, read_header, seal
from kafkawire.errors import ErrorCode
from wirebroker.common.slices import at_once
from wirebroker.core.configs import BrokerConfigs, TopicConfigs
from wirebroker.core.partition import EndMarker, Partition, appended_next
from wirebroker.core.producers import advance, unpack
from wirebroker.core.profile import PROFILES
from wirebroker.core.purgatory import NEVER
from wirekit import NOW, batch

BATCHES = st.lists(
    st.tuples(
        st.integers(0, 1),  # producer id
        st.sampled_from([0, 0, 0, 0, 1]),  # epoch
        st.sampled_from(["next", "next", "next", "next", "gap", "again", "zero"]),
        st.integers(1, 5),  # records
        st.sampled_from([0, 0, 0, 0, 2]),  # compression
        st.sampled_from([0, 0, 0, 0, 5, -7_200_000, 7_200_000]),  # ms from now
        st.sampled_from([*[""] * 8, "crc", "records", "max_timestamp", "control"]),  # the damage
    ),
    max_size=25,
)
OVERRIDES = st.sampled_from(
    [
        {},
        {"compression.type": "gzip"},
        {"message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.before.max.ms": "1000"},
        {"message.timestamp.after.max.ms": "1000"},
        {"max.message.bytes": "100"},
        {"segment.bytes": "1048576", "segment.ms": "1"},
        {"cleanup.policy": "compact"},
    ]
)


def made(pid: int, epoch: int, sequence: int, count: int, codec: int, late: int, damage: str) -> bytes:
    records = [Record(i, i if late == 5 else 0, None, b"v" * 9) for i in range(count)]
    batch = bytearray(
        build_batch(
            records, base_timestamp=NOW + late, producer_id=pid, producer_epoch=epoch, base_sequence=sequence,
            compression=codec,
        )
    )  # fmt: skip
    header = read_header(batch)
    if damage == "max_timestamp":
        batch[:] = seal(header._replace(max_timestamp=header.max_timestamp + 1), batch[HEADER_SIZE:])
    if damage == "control":
        batch[:] = seal(header._replace(attributes=0x20), batch[HEADER_SIZE:])
    if damage == "crc":
        batch[20] ^= 1
    if damage == "records":
        batch[-1] ^= 2
    return bytes(batch)


def stored(partition: Partition) -> Any:
    log = partition.log
    return (
        [bytes(batch) for batch in log.batches()], log.end_offset, partition.producers,
        [(s.base_offset, list(s.bases), list(s.timestamps), s.max_timestamp) for s in log.segments],
    )  # fmt: skip


@pytest.mark.parametrize("full_checks", [True, False], ids=["full", "header"])
@pytest.mark.parametrize("profile", ["kafka-4.3", "single", "pulsar"])
@settings(max_examples=150)
@given(batches=BATCHES, overrides=OVERRIDES)
def test_the_fast_path_has_the_same_result_as_append(
    profile: str, full_checks: bool, batches: list[Any], overrides: dict[str, str]
) -> None:
    def partition() -> Partition:
        configs = TopicConfigs(BrokerConfigs({}), overrides)
        return Partition("orders", 0, [1], configs, PROFILES[profile], NOW, full_checks=full_checks)

    ordinary, quick = partition(), partition()
    sequences = {0: 0, 1: 0}
    for step, (pid, epoch, where, count, codec, late, damage) in enumerate(batches):
        first = {"next": sequences[pid], "gap": sequences[pid] + 3, "again": max(sequences[pid] - count, 0), "zero": 0}
        data = memoryview(made(pid, epoch, first[where], count, codec, late, damage))
        now = NOW + step
        expected = ordinary.append(data, now, 9)
        base = quick.fast_path.append(data, now, False)
        if base >= 0:
            found = appended_next(base, read_header(data))
            assert found.verdict == expected.verdict
            assert (found.error_code, found.base_offset, found.log_append_time) == (0, expected.base_offset, -1)
        else:
            assert quick.append(data, now, 9) == expected
        if not expected.error_code and where != "again":
            sequences[pid] = first[where] + count
        assert stored(quick) == stored(ordinary)


def test_nearly_every_batch_takes_the_fast_path() -> None:
    partition = Partition("orders", 0, [1], TopicConfigs(BrokerConfigs({}), {}), PROFILES["kafka-4.3"], NOW)
    partition.append(memoryview(made(0, 0, 0, 3, 0, 0, "")), NOW, 9)
    assert [partition.fast_path.append(memoryview(made(0, 0, i, 3, 0, 0, "")), NOW, False) for i in (3, 6, 9)] == [3, 6, 9]


def test_d5_a_producer_with_five_batches_takes_at_most_400_bytes_of_a_partition() -> None:
    partition = Partition("orders", 0, [1], TopicConfigs(BrokerConfigs({}), {}), PROFILES["kafka-4.3"], NOW)
    count = 5_000
    tracemalloc.start()
    try:
        for sequence in range(5):
            for pid in range(count):
                header = read_header(made(pid, 0, sequence, 1, 0, 0, ""))
                state = partition.producers.get(pid)
                base = sequence * count + pid
                partition.producers[pid] = advance(state, header, base, NOW, partition.rules)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(unpack(partition.producers[7]).batches) == 5
    assert taken / count <= 400


def test_a_partition_takes_4_kb_and_its_first_record_2_kb() -> None:
    """docs/reference/limits.md states the figures 4 kB and 2 kB."""
    configs, count, used = TopicConfigs(BrokerConfigs({}), {}), 500, [0]
    tracemalloc.start()
    try:
        partitions = [Partition("orders", i, [1], configs, PROFILES["kafka-4.3"], NOW) for i in range(count)]
        used.append(tracemalloc.get_traced_memory()[0])
        for partition in partitions:
            partition.append(memoryview(made(-1, -1, -1, 1, 0, 0, "")), NOW, 9)
        used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert [round((after - before) / count / 1000) for before, after in pairwise(used)] == [4, 2]


def one_batch(**configs: str) -> Partition:
    """Returns a partition with one batch, whose record has the timestamp `NOW`."""
    overrides = {name.replace("_", "."): value for name, value in configs.items()}
    partition = Partition("orders", 0, [1], TopicConfigs(BrokerConfigs({}), overrides), PROFILES["kafka-4.3"], NOW)
    partition.append(memoryview(made(7, 0, 0, 1, 0, 0, "")), NOW, 9)
    return partition


def test_c6_a_producer_expires_to_the_millisecond() -> None:
    partition = one_batch()
    assert at_once(partition.expire_producers(NOW + 5, 6)) == ([], NOW + 6)
    assert at_once(partition.expire_producers(NOW + 6, 6)) == ([(7, 0)], NEVER)


def test_records_are_kept_up_to_and_with_the_last_millisecond_of_their_retention() -> None:
    partition = one_batch(retention_ms="10")
    assert partition.retain(NOW + 10) == NOW + 11
    assert partition.log_start_offset == 0
    assert partition.retain(NOW + 11) == NEVER
    assert partition.log_start_offset == 1


def test_a_batch_whose_transaction_has_ended_meanwhile_is_refused() -> None:
    """The partition did not ask the coordinator, because the transaction was open. Then the marker was written, and only then
    came the batch."""
    partition = Partition("orders", 0, [1], TopicConfigs(BrokerConfigs({}), {}), PROFILES["kafka-4.3"], NOW)
    batches = [batch(number, 1, pid=1, epoch=0, transactional=True) for number in range(2)]
    assert partition.append(memoryview(batches[0]), NOW, 12, verified=True).error_code == 0
    assert partition.start_verification(1, 1, 0, False, NOW) is None
    assert partition.append_marker(EndMarker(1, 0, True, 0, 1), NOW) == 0
    assert partition.append(memoryview(batches[1]), NOW, 12).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_lag_of_a_replica_moves_with_the_clock() -> None:
    """Otherwise the time since which the replica lags would be in the future."""
    partition = Partition("orders", 0, [1, 2], TopicConfigs(BrokerConfigs({}), {}), PROFILES["kafka-4.3"], NOW)
    partition.replication.freeze(2, NOW)
    partition.append(memoryview(made(-1, -1, -1, 1, 0, 0, "")), NOW, 9)
    partition.move_time(-1000)
    assert partition.replication.lags(NOW - 1000, 500) == ([], NOW - 1000 + 501)
    assert partition.replication.lags(NOW - 1000 + 501, 500)[0] == [2]
