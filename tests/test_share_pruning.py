"""Tests which old records of __share_group_state are deleted, and when. The offsets are from a real Kafka 4.3.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.primitives import parse_uuid
from requesting import plain
from responses import sole
from wirebroker import MockKafka
from wirekit import client

TOPIC = "__share_group_state"
PRUNED_MS, COLD_MS = "share.coordinator.state.topic.prune.interval.ms", "share.coordinator.cold.partition.snapshot.interval.ms"
CONFIGS = {
    "share.coordinator.state.topic.num.partitions": 1, "share.coordinator.snapshot.update.records.per.snapshot": 2,
    PRUNED_MS: 1000, COLD_MS: 3_600_000,
}  # fmt: skip


class State:
    """Changes the state of share partitions. A name such as `g0` means group g and partition 0."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka
        self._ask("FindCoordinator", 6, key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
        self._id = parse_uuid(kafka.topics()["t"].topic_id)

    def _ask(self, api: str, version: int, **fields: Any) -> Any:
        return client(self._kafka).request(plain(api, **fields), version)

    def _do(self, api: str, where: str, **fields: Any) -> None:
        partitions = [{"partition": int(where[1]), **fields}]
        response = self._ask(api, 0, group_id=where[0], topics=[{"topic_id": self._id, "partitions": partitions}])
        assert sole(sole(response.results).partitions).error_code == 0

    def begin(self, where: str, epoch: int = 0) -> None:
        self._do("InitializeShareGroupState", where, state_epoch=epoch, start_offset=0)

    def write(self, where: str, times: int, epoch: int = 0) -> None:
        for offset in range(times):
            self._do("WriteShareGroupState", where, state_epoch=epoch, leader_epoch=0, start_offset=offset, state_batches=[])

    def put(self, where: str, *batches: tuple[int, int, int]) -> None:
        """Writes batches of available records. Each batch is given as its first offset, its last offset and its delivery
        count.
        """
        fields = ("first_offset", "last_offset", "delivery_count")
        made = [dict(zip(fields, each, strict=True), delivery_state=0) for each in batches]
        self._do("WriteShareGroupState", where, state_epoch=0, leader_epoch=0, start_offset=-1, state_batches=made)

    def held(self) -> dict[Any, Any]:
        """Returns all states."""
        return self._kafka._call(lambda engine: dict(engine.groups.share_state.states))

    def delete(self, where: str) -> None:
        self._do("DeleteShareGroupState", where)

    def after(self, seconds: float) -> tuple[int, int]:
        """Lets `seconds` pass. Returns the log start offset and the log end offset."""
        self._kafka.clock.advance(seconds=seconds)
        partition = {"partition_index": 0, "current_leader_epoch": -1}
        first, end = (
            self._ask("ListOffsets", 7, replica_id=-1, isolation_level=0,
                      topics=[{"name": TOPIC, "partitions": [{**partition, "timestamp": at}]}])
            for at in (-2, -1)
        )  # fmt: skip
        return tuple(sole(sole(each.topics).partitions).offset for each in (first, end))  # type: ignore[return-value]


def test_records_before_the_first_needed_snapshot_are_deleted() -> None:
    with MockKafka(topics={"t": 2}, configs=CONFIGS, clock="frozen") as kafka:
        state = State(kafka)
        for each in ("g0", "g1", "h0"):
            state.begin(each)
        assert state.after(1) == (0, 3)
        found = []
        for where in ("g0", "g1", "h0"):
            state.write(where, 3)
            found.append(state.after(1))
        assert found == [(1, 6), (2, 9), (5, 12)]
        for where in ("g0", "g1"):
            state.delete(where)
            found.append(state.after(1))
        state.write("h0", 1)
        assert [*found[3:], state.after(1)] == [(8, 13), (11, 14), (11, 15)]
        state.delete("h0")
        assert state.after(1) == (15, 16), "the tombstone is kept until the next record is written"


def test_a_state_that_begins_again_goes_on_counting_its_updates() -> None:
    with MockKafka(topics={"t": 2}, configs=CONFIGS, clock="frozen") as kafka:
        state = State(kafka)
        state.begin("g1")
        state.begin("g1", 1)
        assert state.after(1) == (1, 2)
        state.write("g1", 2, 1)
        assert state.after(1) == (1, 4)
        state.begin("g1", 2)
        state.write("g1", 1, 2)
        assert state.after(1) == (4, 6), "an update record was written"
        state.write("g1", 3, 2)
        assert state.after(1) == (7, 9), "a snapshot was written, because there were more than two updates"


def test_idle_share_partitions_are_written_again_so_that_older_records_can_go() -> None:
    with MockKafka(topics={"t": 2}, configs=CONFIGS | {COLD_MS: 10_000}, clock="frozen") as kafka:
        state = State(kafka)
        for each in ("g0", "g1", "h0"):
            state.begin(each)
        assert state.after(9) == (0, 3)
        state.write("g0", 3)
        assert state.after(1.5) == (5, 8), "the states of g1 and h0 are written again"
        assert state.after(30) == (8, 11), "later all three states are written again, because g0 was in use"


def test_states_of_the_time_before_a_soft_reset_are_written_again_once() -> None:
    with MockKafka(topics={"t": 2}, configs=CONFIGS | {COLD_MS: 10_000}, clock="frozen") as kafka:
        state = State(kafka)
        state.after(3600)
        for each in ("g0", "g1"):
            state.begin(each)
        kafka.reset(soft=True)
        state.write("g0", 3)
        assert state.after(11) == state.after(100)


def test_a_broker_that_starts_knows_from_the_log_which_records_are_needed(tmp_path: Path) -> None:
    with MockKafka(topics={"t": 2}, configs=CONFIGS, clock="frozen", data=tmp_path) as kafka:
        state = State(kafka)
        state.begin("g0")
        state.begin("h0")
        state.write("g0", 3)
    with MockKafka(configs=CONFIGS, clock="frozen", data=tmp_path) as kafka:
        state = State(kafka)
        assert state.after(1) == (1, 5)
        kafka.restart("kill")
        state = State(kafka)
        state.write("h0", 3)
        assert state.after(1) == (4, 8)


@pytest.mark.parametrize("updates", [0, 500], ids=["snapshot", "update"])
def test_a_restart_keeps_the_batches_of_a_state(tmp_path: Path, updates: int) -> None:
    """As in Kafka, adjacent batches with the same state are joined. In an update record, the new batches are joined first."""
    configs = CONFIGS | {"share.coordinator.snapshot.update.records.per.snapshot": updates}
    with MockKafka(topics={"t": 2}, configs=configs, clock="frozen", data=tmp_path) as kafka:
        state = State(kafka)
        state.begin("g0")
        state.put("g0", (0, 1, 1))
        state.put("g0", (0, 0, 2), (1, 1, 2))
        before = state.held()
        assert [len(each.batches) for each in before.values()] == [1 if updates else 2]
    with MockKafka(configs=configs, clock="frozen", data=tmp_path) as kafka:
        assert State(kafka).held() == before
