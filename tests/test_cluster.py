"""Replication: leaders that fail or move, and followers that lag.

The expected results were observed on three real brokers of Apache Kafka 4.3.1. One of these brokers was killed, stopped
(SIGSTOP) or restarted. tests/data/failover-3-nodes.json is a recording of such steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reassignment_steps
from actors import TransactionalProducer
from clusterkit import Cluster, Described, Read, Told
from dialogue import Dialogue, accepted, answered
from inprocess import InProcess
from kafkawire.batches import Record, build_batch
from kafkawire.declare import Message
from kafkawire.errors import error_name
from kafkawire.primitives import parse_uuid
from requesting import (
    create_topics,
    delete_records,
    end_txn,
    find_coordinator,
    init_producer_id,
    join_group,
    list_offsets,
    new_topic,
    offset_commit,
    plain,
    produce_request,
    sync_group,
)
from responses import only, sole
from wirebroker import faults
from wirebroker.client.wire import ConnectionClosed
from wirebroker.core.cluster import COORDINATOR_TOPICS
from wirebroker.core.partition import EndMarker
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirebroker.trace.layout import line
from wirekit import batch

Start = Callable[..., Cluster]
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER, CONCURRENT, FENCED = 15, 16, 25, 51, 90
OUT_OF_ORDER, NOT_LEADER, TIMED_OUT = "OUT_OF_ORDER_SEQUENCE_NUMBER", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"
RECORDED = Path(__file__).parent / "data" / "failover-3-nodes.json"


@pytest.fixture
def start(mock_kafka_factory: Callable[..., MockKafka]) -> Start:
    """Three brokers with a frozen clock."""
    return lambda **settings: Cluster(mock_kafka_factory(brokers=3, clock="frozen", **settings))


def create(cluster: Cluster, name: str, *replicas: int, **configs: Any) -> None:
    """Creates a topic with one partition on the brokers `replicas`. The first of these brokers is the leader."""
    overrides = {key.replace("_", "."): str(value).lower() for key, value in configs.items()}
    now = cluster.kafka.clock.now()
    cluster.kafka._call(lambda engine: engine.cluster.create_topic(name, now, assignment={0: replicas}, overrides=overrides))


# D2: a failover


def test_d2_a_failover_of_three_recorded_nodes_step_by_step(start: Start) -> None:
    steps = {step["step"]: step["observed"] for step in json.loads(RECORDED.read_text())}
    cluster = start()
    create(cluster, "t", 3, 1, 2)
    pids = [cluster.kafka._call(lambda e, node=node: e.cluster.producer_ids.allocate(node)) for node in (1, 2, 3)]
    assert pids == [steps[f"init_pid on node {node}"]["pid"] for node in (1, 2, 3)]
    assert [cluster.describe("t").leader, cluster.describe("t").epoch] == [steps["leader"][0], steps["leader"][2]]

    def compare(step: str, told: Told) -> None:
        seen = steps[step]
        assert (told.error, told.offset, told.log_start) == (
            seen["error"].split()[1], seen["base_offset"], seen["log_start"],
        ), step  # fmt: skip

    for sequence in range(0, 14, 2):
        compare(f"produce seq {sequence} n=2 -> leader", cluster.produce(3, "t", 2, seq=sequence))
    refused = cluster.produce(1, "t", 2, seq=14)
    compare("produce to follower v12", refused)
    assert refused.leader == (3, 0)
    cluster.kill(3)
    found = cluster.describe("t")
    assert [found.leader, sorted(found.in_sync), found.epoch] == steps["killed leader 3; new leader after 8.6s"]
    for sequence in (12, 10, 8, 6, 4):
        compare(f"dup seq {sequence} on new leader", cluster.produce(1, "t", 2, seq=sequence))
    for sequence in (2, 0):
        compare(f"outside window seq {sequence} on new leader", cluster.produce(1, "t", 2, seq=sequence))
    compare("gap seq 20 on new leader", cluster.produce(1, "t", 2, seq=20))
    compare("next seq 14 on new leader", cluster.produce(1, "t", 2, seq=14))
    cluster.kafka.freeze_replica("t", 0, 2)
    for step in (
        "follower 2 frozen: acks=-1 timeout 2 s (2.0s)",
        "dup of the not-yet-replicated batch, acks=-1 timeout 2 s",
    ):
        cluster.send(1, "t", 2, seq=16, timeout_ms=2000)
        wait_until_stored(cluster, 1, "t", 18)
        cluster.kafka.clock.advance(seconds=2)
        compare(step, cluster.told(1))
    compare("dup of the not-yet-replicated batch, acks=1", cluster.produce(1, "t", 2, seq=16, acks=1))
    cluster.kafka.thaw_replica("t", 0, 2)
    compare("follower thawed: dup again acks=-1", cluster.produce(1, "t", 2, seq=16))


def wait_until_stored(cluster: Cluster, node: int, topic: str, end: int) -> None:
    """Waits until two conditions hold: the leader's log ends at `end`, and a Produce request waits for its response."""

    def taken() -> bool:
        waits = cluster.kafka._call(lambda e: sum(c.parked is not None for c in e.connections if c.node_id == node))
        return waits > 0 and cluster.kafka.partition(topic).log_end_offset == end

    cluster.kafka.wait_until(taken)


def dups(cluster: Cluster, node: int, topic: str, *sequences: int) -> list[str]:
    return [cluster.produce(node, topic, seq=sequence).error for sequence in sequences]


def test_d2_a_restarted_replica_remembers_one_batch_and_what_it_has_followed_since(start: Start) -> None:
    cluster = start()
    create(cluster, "w", 2, 1)
    for sequence in range(6):
        cluster.produce(2, "w", seq=sequence)
    cluster.kill(2)
    cluster.kafka.start_broker(2)
    assert [cluster.produce(1, "w", seq=6).offset, cluster.produce(1, "w", seq=7).offset] == [6, 7]
    assert cluster.kafka.elect_leader("w") == 0
    assert cluster.describe("w") == Described(2, 2, [1, 2], [], [], [])
    assert dups(cluster, 2, "w", 7, 6, 5, 4, 3, 2) == ["NONE"] * 3 + [OUT_OF_ORDER] * 3
    cluster.kill(2)  # broker 1 was never restarted
    assert dups(cluster, 1, "w", 7, 6, 5, 4, 3, 2) == ["NONE"] * 5 + [OUT_OF_ORDER]


def test_d2_a_former_leader_that_was_cut_off_reads_its_state_from_the_log_again(start: Start) -> None:
    cluster = start()
    create(cluster, "x", 3, 1)
    for sequence in range(6):
        cluster.produce(3, "x", seq=sequence)
    cluster.kafka.freeze_replica("x", 0, 1)
    assert [cluster.produce(3, "x", seq=6 + i, acks=1).offset for i in range(2)] == [6, 7]
    cluster.kill(3)
    assert cluster.fetch(1, "x")[1:3] == (6, 6)
    assert cluster.epoch_end(1, "x", 0) == ("NONE", 0, 6)
    assert cluster.produce(1, "x", seq=7).error == OUT_OF_ORDER
    assert cluster.produce(1, "x", seq=6).offset == 6
    cluster.kafka.start_broker(3)
    assert cluster.kafka.elect_leader("x") == 0
    assert dups(cluster, 3, "x", 6, 5, 4, 3, 2, 1) == ["NONE"] * 5 + [OUT_OF_ORDER]
    assert [cluster.epoch_end(3, "x", epoch)[1:] for epoch in (0, 1, 2)] == [(0, 6), (1, 7), (2, 7)]


# B6: records that are lost with a leader


def test_b6_acks_1_loses_records_that_are_not_replicated_and_their_producers_state(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    cluster.produce(1, "t", 3, seq=0)
    cluster.kafka.freeze_replica("t", 0, 2)
    assert cluster.produce(1, "t", 2, seq=3, acks=1) == Told("NONE", 3, 0)
    assert cluster.fetch(1, "t", 3).size == 0  # consumers do not get the unreplicated records
    cluster.kill(1)
    assert len(cluster.kafka.records("t")) == 3
    assert cluster.kafka.producers("t", 0)[5].last_sequence == 2
    assert cluster.produce(2, "t", 2, seq=5).error == OUT_OF_ORDER  # the producer assumes that sequences 3 and 4 are stored
    assert cluster.produce(2, "t", 2, seq=3) == Told("NONE", 3, 0)


def test_b6_acks_all_is_not_acknowledged_before_the_replicas_have_it(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    cluster.kafka.freeze_replica("t", 0, 2)
    cluster.send(1, "t", 2, seq=0)
    wait_until_stored(cluster, 1, "t", 2)
    cluster.kafka.kill_broker(1)
    with pytest.raises(ConnectionClosed):
        cluster.told(1)
    assert cluster.kafka.records("t") == []
    assert cluster.produce(2, "t", 2, seq=0) == Told("NONE", 0, 0)


def test_b6_open_and_aborted_transactions_are_those_of_the_new_leaders_log(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    kafka = cluster.kafka
    part = kafka._call(lambda engine: engine.cluster.topics["t"].partitions[0])

    def transactional(pid: int) -> None:
        data = batch(0, 2, pid=pid, epoch=0, timestamp=kafka.clock.now(), transactional=True)
        part.start_verification(pid, 0, 0, True, kafka.clock.now())
        assert part.append(memoryview(data), kafka.clock.now(), 12, verified=True).error_code == 0

    kafka._call(lambda _: transactional(1))
    kafka.freeze_replica("t", 0, 2)
    kafka._call(lambda _: transactional(2))
    assert kafka._call(lambda _: part.append_marker(EndMarker(1, 1, False, 0, 2), kafka.clock.now())) == 0
    assert cluster.fetch(1, "t", committed=True)[1:4] == (2, 0, 0)  # the marker is not replicated yet
    cluster.kill(1)
    assert cluster.fetch(2, "t", committed=True)[1:4] == (2, 0, 0)  # the killed leader's marker was not replicated
    assert kafka._call(lambda _: part.append_marker(EndMarker(1, 1, False, 0, 2), kafka.clock.now())) == 0
    assert cluster.fetch(2, "t", committed=True)[1:3] == (3, 3)
    assert list(kafka.producers("t", 0)) == [1]


# D3: high watermark, in-sync replicas, min.insync.replicas, request timeouts


def test_d3_min_insync_replicas(start: Start) -> None:
    cluster = start()
    create(cluster, "a", 1, 2, 3, min_insync_replicas=2)
    kafka = cluster.kafka
    assert cluster.produce(1, "a", 5) == Told("NONE", 0, 0)
    cluster.kill(3)
    assert cluster.describe("a") == Described(1, 0, [1, 2], [], [], [3])
    assert cluster.metadata("a") == {
        "brokers": [1, 2], "error": "NONE", "leader": 1, "epoch": 0, "replicas": [1, 2, 3], "in_sync": [1, 2], "offline": [3]
    }  # fmt: skip
    assert cluster.metadata("a", 0)["error"] == "REPLICA_NOT_AVAILABLE"
    assert cluster.metadata("a", 0)["replicas"] == [1, 2]
    assert cluster.produce(1, "a").offset == 5
    cluster.kill(2)
    assert cluster.describe("a") == Described(1, 0, [1], [2], [], [2, 3])
    assert cluster.produce(1, "a") == Told("NOT_ENOUGH_REPLICAS", -1, 0)
    assert cluster.produce(1, "a", 2, acks=1) == Told("NONE", 6, 0)
    assert cluster.fetch(1, "a")[:3] == ("NONE", 6, 6)  # the high watermark does not advance
    assert cluster.end(1, "a") == ("NONE", 6, 0)
    kafka.start_broker(2)
    assert cluster.describe("a") == Described(1, 0, [1, 2], [], [], [3])
    assert cluster.end(1, "a") == ("NONE", 8, 0)
    cluster.kill(1)
    assert cluster.describe("a") == Described(2, 1, [2], [1], [], [1, 3])
    assert cluster.produce(2, "a") == Told("NOT_ENOUGH_REPLICAS", -1, 0)
    assert cluster.produce(2, "a", acks=1).offset == 8
    assert cluster.end(2, "a") == ("NONE", 8, 1)
    assert [cluster.epoch_end(2, "a", epoch) for epoch in (0, 1, 9)] == [("NONE", 0, 8), ("NONE", 1, 9), ("NONE", -1, -1)]
    kafka.start_broker(3)
    assert cluster.fetch(2, "a").high_watermark == 9
    kafka.start_broker(1)
    assert cluster.describe("a") == Described(2, 1, [1, 2, 3], [], [], [])


def test_d3_a_retry_notices_that_fewer_in_sync_replicas_are_enough(start: Start) -> None:
    """As in Kafka, the leader computes the high watermark after each append, even if the batch is a duplicate."""
    cluster = start()
    create(cluster, "a", 1, 2, 3, min_insync_replicas=2)
    cluster.kill(2)
    cluster.kill(3)
    assert cluster.produce(1, "a", seq=0, acks=1) == Told("NONE", 0, 0)
    assert cluster.fetch(1, "a").high_watermark == 0
    cluster.kafka._call(lambda engine: engine.cluster.topics["a"].configs.replace({"min.insync.replicas": "1"}))
    assert cluster.produce(1, "a", seq=0) == Told("NONE", 0, 0)
    assert cluster.fetch(1, "a").high_watermark == 1


def test_d3_a_partition_that_loses_all_its_leaders(start: Start) -> None:
    cluster = start()
    kafka = cluster.kafka
    create(cluster, "b", 1, 2, min_insync_replicas=2)
    create(cluster, "b1", 1, 2)
    create(cluster, "u", 1, 2, unclean_leader_election_enable=True)
    create(cluster, "one", 1)
    topics = ("b", "b1", "u", "one")
    assert [cluster.produce(1, topic, 2).offset for topic in topics] == [0] * 4
    cluster.kill(2)
    assert [cluster.describe(topic)[2:4] for topic in topics[:3]] == [([1], [2]), ([1], []), ([1], [])]
    assert [cluster.produce(1, topic, 3, acks=1).offset for topic in topics[:3]] == [2] * 3
    cluster.kill(1)
    assert cluster.describe("b") == Described(-1, 1, [], [1, 2], [1], [1, 2])
    assert cluster.describe("b1") == Described(-1, 1, [], [1], [1], [1, 2])
    assert cluster.describe("one") == Described(-1, 1, [], [1], [1], [1])
    for version in (0, 9):
        assert cluster.metadata("b", version)["error"] == "LEADER_NOT_AVAILABLE"
    assert cluster.produce(3, "b") == Told(NOT_LEADER, -1, -1, (-1, 1))
    assert cluster.end(3, "b") == (NOT_LEADER, -1, -1)
    kafka.start_broker(2)  # broker 2 was not in sync
    assert cluster.describe("b") == Described(-1, 1, [], [1], [1], [1])
    assert cluster.describe("u") == Described(2, 2, [2], [], [], [1])
    assert cluster.produce(2, "u") == Told("NONE", 2, 0)  # the records that only the first leader had are lost
    assert cluster.epoch_end(2, "u", 0) == ("NONE", 0, 2)
    assert cluster.produce(2, "b") == Told(NOT_LEADER, -1, -1, (-1, 1))
    kafka.start_broker(1)
    assert cluster.describe("b") == Described(1, 2, [1, 2], [], [], [])
    assert cluster.describe("u") == Described(2, 2, [1, 2], [], [], [])
    assert cluster.end(1, "b") == ("NONE", 5, 2)
    assert [cluster.epoch_end(1, "b", epoch) for epoch in (0, 1, 2)] == [("NONE", 0, 5), ("NONE", 0, 5), ("NONE", 2, 5)]
    assert cluster.end(2, "u") == ("NONE", 3, 2)


def test_d3_leader_epochs_are_checked_and_a_consumer_learns_that_its_log_was_cut_off(start: Start) -> None:
    cluster = start()
    create(cluster, "u", 1, 2, unclean_leader_election_enable=True)
    cluster.produce(1, "u", 2)
    cluster.kill(2)
    cluster.produce(1, "u", 3)
    cluster.kill(1)
    cluster.kafka.start_broker(2)
    cluster.produce(2, "u")
    assert cluster.fetch(2, "u", epoch=0).error == "FENCED_LEADER_EPOCH"
    assert cluster.fetch(2, "u", epoch=50).error == "UNKNOWN_LEADER_EPOCH"
    assert cluster.epoch_end(2, "u", 0, current=1)[0] == "FENCED_LEADER_EPOCH"
    assert cluster.fetch(2, "u", 5, last=0) == Read("NONE", 3, 3, 0, (0, 2))
    assert cluster.fetch(2, "u", 2, last=9).error == "OFFSET_OUT_OF_RANGE"
    assert cluster.fetch(2, "u", 1, last=0).size > 0
    assert cluster.fetch(2, "u", 5).error == "OFFSET_OUT_OF_RANGE"


def test_d3_a_frozen_follower_holds_the_high_watermark_until_it_is_out_of_sync(start: Start) -> None:
    cluster = start()
    kafka = cluster.kafka
    create(cluster, "g", 1, 2)
    cluster.produce(1, "g", 2)
    kafka.freeze_replica("g", 0, 2)
    assert cluster.produce(1, "g", 2, acks=1).offset == 2
    assert cluster.fetch(1, "g")[:3] == ("NONE", 2, 2)
    assert cluster.fetch(2, "g")[:3] == ("NONE", 2, 2)  # a follower also serves consumers
    assert cluster.end(1, "g") == ("NONE", 2, 0)
    cluster.send(1, "g", timeout_ms=100_000)
    wait_until_stored(cluster, 1, "g", 5)
    kafka.clock.advance(seconds=30)
    assert kafka.partition("g").in_sync == [1, 2]
    kafka.clock.advance(milliseconds=1)
    assert cluster.told(1) == Told("NONE", 4, 0)
    assert kafka.partition("g").in_sync == [1]
    assert cluster.fetch(1, "g").high_watermark == 5
    assert cluster.fetch(2, "g").high_watermark == 2
    kafka.thaw_replica("g", 0, 2)
    assert kafka.partition("g").in_sync == [1, 2]
    assert cluster.fetch(2, "g").high_watermark == 5


def test_d3_a_frozen_follower_that_lacks_nothing_stays_in_sync(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2)
    cluster.kafka.freeze_replica("g", 0, 2)
    cluster.kafka.clock.advance(hours=1)
    assert cluster.kafka.partition("g").in_sync == [1, 2]
    cluster.produce(1, "g", acks=1)
    cluster.kafka.clock.advance(seconds=16)  # the leader looks for lagging replicas twice in replica.lag.time.max.ms
    assert cluster.kafka.partition("g").in_sync == [1]


def test_d3_too_few_in_sync_hold_the_high_watermark_and_acks_all_times_out(start: Start) -> None:
    cluster = start()
    kafka = cluster.kafka
    create(cluster, "f", 1, 2, 3, min_insync_replicas=2)
    cluster.produce(1, "f", 2, seq=0)
    kafka.freeze_replica("f", 0, 2)
    kafka.freeze_replica("f", 0, 3)
    cluster.send(1, "f", seq=2, timeout_ms=60_000)
    wait_until_stored(cluster, 1, "f", 3)
    kafka.clock.advance(seconds=31)
    assert cluster.describe("f") == Described(1, 0, [1], [2, 3], [], [])
    assert kafka.partition("f").high_watermark == 2
    kafka.clock.advance(seconds=29)
    assert cluster.told(1) == Told(TIMED_OUT, 2, 0)
    assert cluster.produce(1, "f", seq=2).error == "NOT_ENOUGH_REPLICAS"
    assert cluster.produce(1, "f", seq=2, acks=1) == Told("NONE", 2, 0)
    kafka.thaw_replica("f", 0, 3)
    assert cluster.describe("f") == Described(1, 0, [1, 3], [], [], [])
    assert cluster.produce(1, "f", seq=2) == Told("NONE", 2, 0)


def test_d3_a_retry_that_is_answered_at_once_does_not_let_the_next_batch_pass(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2)
    cluster.produce(1, "g", seq=0)
    cluster.kafka.freeze_replica("g", 0, 2)
    assert cluster.produce(1, "g", seq=0) == Told("NONE", 0, 0)
    cluster.send(1, "g", seq=1)
    wait_until_stored(cluster, 1, "g", 2)
    cluster.kafka.thaw_replica("g", 0, 2)
    assert cluster.told(1) == Told("NONE", 1, 0)


def test_d3_a_new_leader_begins_with_the_last_high_watermark_it_knew(start: Start) -> None:
    cluster = start()
    kafka = cluster.kafka
    create(cluster, "g", 1, 2, 3, min_insync_replicas=2)
    cluster.produce(1, "g", 2)
    kafka.freeze_replica("g", 0, 3)
    cluster.produce(1, "g", 2, acks=1)
    kafka.freeze_replica("g", 0, 2)  # broker 3 has all records, but the leader does not know this yet
    kafka.thaw_replica("g", 0, 3)
    assert kafka.partition("g").high_watermark == 4
    cluster.kill(3)
    cluster.kill(1)
    state = kafka.partition("g")
    assert (state.leader, state.leader_epoch) == (2, 1)
    assert cluster.end(2, "g")[0] == "OFFSET_NOT_AVAILABLE"
    assert kafka.partition("g").high_watermark == 2  # too few replicas are in sync, so the high watermark does not advance
    cluster.kafka.start_broker(3)
    assert cluster.end(2, "g") == ("NONE", 4, 1)


def test_d3_a_consumer_waits_for_the_high_watermark_and_not_for_the_end(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2)
    cluster.kafka.freeze_replica("g", 0, 2)
    waiting = Cluster(cluster.kafka)
    waiting.wire(1).send(cluster.fetch_request("g", 0, epoch=-1, last=-1, wait_ms=60_000, committed=False), 12)
    wait_until_stored(cluster, 1, "g", 0)
    cluster.produce(1, "g", acks=1)
    wait_until_stored(cluster, 1, "g", 1)  # the Fetch still waits
    cluster.kafka.thaw_replica("g", 0, 2)
    assert waiting.read(1).high_watermark == 1


def test_d3_a_waiting_produce_is_answered_when_the_leader_moves(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2, 3)
    cluster.produce(1, "g")
    cluster.kafka.freeze_replica("g", 0, 3)
    cluster.send(1, "g", 2)
    wait_until_stored(cluster, 1, "g", 3)
    cluster.kafka.move_leader("g", to=2)
    assert cluster.told(1) == Told(NOT_LEADER, 1, 0, (2, 1))
    assert cluster.kafka.partition("g").log_end_offset == 3  # nothing is lost
    assert cluster.end(2, "g") == ("OFFSET_NOT_AVAILABLE", -1, -1)
    assert cluster.end(2, "g", 4)[0] == "LEADER_NOT_AVAILABLE"
    cluster.kafka.thaw_replica("g", 0, 3)
    assert cluster.end(2, "g") == ("NONE", 3, 1)


def test_d3_delete_records_waits_for_the_replicas(start: Start) -> None:
    cluster = start()
    create(cluster, "d", 1, 2)
    cluster.produce(1, "d", 5)
    cluster.kafka.freeze_replica("d", 0, 2)
    cluster.delete_records(1, "d", 3)
    wait_until_stored(cluster, 1, "d", 5)
    cluster.kafka.clock.advance(seconds=1)
    assert cluster.deleted(1) == (TIMED_OUT, 0)
    assert cluster.kafka.partition("d").log_start_offset == 3
    cluster.delete_records(1, "d", 4)
    wait_until_stored(cluster, 1, "d", 5)
    cluster.kafka.thaw_replica("d", 0, 2)
    assert cluster.deleted(1) == ("NONE", 4)
    cluster.kill(2)  # DeleteRecords does not wait for a dead replica
    cluster.delete_records(1, "d", 5)
    assert cluster.deleted(1) == ("NONE", 5)


# The coordinator is the leader of its partition's log


def coordinator(cluster: Cluster, kind: str, key: str) -> int:
    """Returns the node id of the coordinator. The request creates the coordinator's internal topic."""
    asked = find_coordinator(key, kind=int(kind == "transaction"))
    return int(sole(cluster.anyone().request(asked, 4, "admin").coordinators).node_id)


def move_coordinator(cluster: Cluster, kind: str, key: str) -> int:
    """Moves the coordinator to another broker, and returns its node id."""
    now = coordinator(cluster, kind, key)
    to = next(node for node in (1, 2, 3) if node != now)
    index = cluster.kafka._call(lambda engine: engine.cluster.coordinator_partition(kind, key))
    cluster.kafka.move_leader("__consumer_offsets" if kind == "group" else "__transaction_state", index or 0, to=to)
    return to


def join(cluster: Cluster, node: int, member_id: str = "", version: int = 5) -> Any:
    cluster.wire(node).send(join_request(member_id), version)
    return cluster.wire(node).response()


def join_request(member_id: str) -> Message:
    return join_group("team", member_id, [("range", b"")], rebalance_ms=10000)


def described(cluster: Cluster, node: int) -> tuple[int, str, list[str]]:
    group = sole(cluster.wire(node).request(plain("DescribeGroups", groups=["team"]), 4).groups)
    return group.error_code, group.group_state, [member.member_id for member in group.members]


def stable_member(cluster: Cluster, node: int) -> str:
    """Makes a stable group with one member, and returns the member's id."""
    member_id: str = join(cluster, node).member_id
    joined = join(cluster, node, member_id)
    sync = sync_group("team", member_id, joined.generation_id, {member_id: b""})
    assert cluster.wire(node).request(sync, 3).error_code == 0
    return member_id


def test_d3_a_group_moves_with_the_leader_of_its_offsets(start: Start) -> None:
    cluster = start()
    old = coordinator(cluster, "group", "team")
    member_id = stable_member(cluster, old)
    pending = join(cluster, old).member_id
    second = Cluster(cluster.kafka)
    second.wire(old).send(join_request(pending), 5)  # this starts a rebalance, which waits until the first member joins again
    cluster.kafka.wait_until(lambda: bool(cluster.kafka._call(lambda e: [c for c in e.connections if c.parked])))
    new = move_coordinator(cluster, "group", "team")
    assert second.wire(old).response().error_code == NOT_COORDINATOR
    assert described(cluster, old)[0] == NOT_COORDINATOR
    assert coordinator(cluster, "group", "team") == new
    assert described(cluster, new) == (0, "Stable", [member_id])
    assert join(cluster, new, pending).error_code == UNKNOWN_MEMBER


def test_d3_a_group_whose_coordinator_is_down_waits_for_it(start: Start) -> None:
    cluster = start(configs={"offsets.topic.replication.factor": 1})
    node = coordinator(cluster, "group", "team")
    member_id = stable_member(cluster, node)
    cluster.kill(node)
    assert coordinator(cluster, "group", "team") == -1
    other = cluster.kafka._call(lambda engine: min(engine.cluster.live_brokers))
    assert described(cluster, other)[0] == NOT_COORDINATOR
    cluster.kafka.clock.advance(hours=1)  # the member does not expire, because no coordinator is available
    cluster.kafka.start_broker(node)
    assert coordinator(cluster, "group", "team") == node
    assert described(cluster, node) == (0, "Stable", [member_id])
    cluster.kafka.clock.advance(seconds=11)
    assert described(cluster, node) == (0, "Empty", [])


def initialized(cluster: Cluster, node: int, pid: int = -1, epoch: int = -1) -> tuple[int, int, int]:
    request = init_producer_id("till", current=(pid, epoch))
    response = cluster.wire(node).request(request, 5)
    return response.error_code, response.producer_id, response.producer_epoch


def write_in_transaction(cluster: Cluster, node: int, topic: str, pid: int, epoch: int) -> int:
    data = batch(0, 1, pid=pid, epoch=epoch, timestamp=cluster.kafka.clock.now(), transactional=True)
    request = produce_request(topic, data)
    request.transactional_id = "till"
    code: int = only(cluster.wire(node).request(request, 12)).error_code
    return code


def commit(cluster: Cluster, node: int, pid: int, epoch: int) -> int:
    request = end_txn("till", (pid, epoch), True)
    return int(cluster.wire(node).request(request, 5).error_code)


def transaction_state(cluster: Cluster, node: int) -> tuple[int, str]:
    request = plain("DescribeTransactions", transactional_ids=["till"])
    found = cluster.wire(node).request(request, 0).transaction_states[0]
    return found.error_code, found.transaction_state


def share_state(group: str, start: int, topic_id: str) -> Message:
    part = {"partition": 0, "state_epoch": start, "start_offset": start}
    topics = [{"topic_id": parse_uuid(topic_id), "partitions": [part]}]
    return plain("InitializeShareGroupState", group_id=group, topics=topics)


COORDINATORS: dict[str, tuple[Callable[[str, int, str], Message], int, Callable[[Engine], dict[str, int]]]] = {
    "group": (lambda name, number, _: offset_commit(name, number), 8, lambda engine: {
        name: engine.groups.offsets.of(name)["orders", 0].offset for name in engine.groups.groups
    }),
    "transaction": (lambda name, *_: init_producer_id(name), 5, lambda engine: {
        name: known.producer_epoch for name, known in engine.transactions.transactions.items()
    }),
    "share": (share_state, 0, lambda engine: {
        name: state.start_offset for (name, _, _), state in engine.groups.share_state.states.items()
    }),
}  # fmt: skip
"""For each kind of coordinator: a request that writes a record about a name, its version, and the numbers that the coordinator
then knows, by name."""


@pytest.mark.parametrize("how", ["clean move", "unclean election", "truncation", "later start", "later restart"])
@pytest.mark.parametrize("kind", COORDINATORS)
def test_d3_a_coordinator_forgets_what_only_lost_records_said(start: Start, kind: str, how: str) -> None:
    """Kafka's new leader of a coordinators' partition reads its own log."""
    counts = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    cluster = start(topics=["orders"], configs={f"{each}.num.partitions": "1" for each in counts})
    kafka, topic = cluster.kafka, COORDINATOR_TOPICS[kind]
    topic_id = kafka.topics()["orders"].topic_id
    asked = find_coordinator(f"old:{topic_id}:0" if kind == "share" else "old", kind=list(COORDINATORS).index(kind))
    leader = sole(cluster.anyone().request(asked, 6, "admin").coordinators).node_id
    request, version, known = COORDINATORS[kind]

    def write(name: str, number: int) -> None:
        cluster.wire(leader).request(request(name, number, topic_id), version)

    write("old", 0)
    kept = kafka.partition(topic).log_end_offset
    behind, other = (node for node in (1, 2, 3) if node != leader)
    if how != "truncation":
        cluster.kill(behind)
    write("old", 1)
    write("new", 0)
    before = kafka._call(known)
    assert before == {"old": 1, "new": 0}
    if how == "clean move":
        kafka.move_leader(topic, 0, to=other)
    elif how == "truncation":
        kafka.truncate(topic, 0, kept)
    else:
        for node in (other, leader):
            cluster.kill(node)
    if how.startswith("later"):
        kafka.truncate(topic, 0, kept)
        assert kafka._call(known) == before  # no broker leads the log yet
        kafka.start_broker(leader) if how == "later start" else kafka.restart()
    elif how == "unclean election":
        kafka.start_broker(behind)
        assert kafka._call(known) == before  # no broker leads the log yet
        kafka.elect_leader(topic, 0, unclean=True)
    assert kafka._call(known) == (before if how == "clean move" else {"old": 0})


@pytest.mark.parametrize("kind", COORDINATORS)
def test_a_coordinator_goes_on_without_a_record_that_it_cannot_read(
    start: Start, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka, topic = start().kafka, COORDINATOR_TOPICS[kind]
    unreadable = build_batch([Record(0, 0, (b"\0\0" if kind != "group" else b"\0\1") + b"\0\xff", b"\0\1")])

    def write(engine: Engine) -> None:
        now = kafka.clock.now()
        partition = engine.cluster.create_internal_topic(topic, now).partitions[0]
        assert [partition.append_own(bytearray(unreadable), now) for _ in range(2)] == [0, 0]

    kafka._change(lambda engine, _: write(engine))
    kafka.truncate(topic, 0, 1)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "wirebroker"]
    assert said.startswith(f"the coordinator of {topic}-0 goes on without the records of this log: ")
    assert kafka.partition(topic).log_end_offset == 1


def test_d3_a_prepared_transaction_is_completed_by_the_next_coordinator(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    old = coordinator(cluster, "transaction", "till")
    _, pid, epoch = initialized(cluster, old)
    assert write_in_transaction(cluster, 1, "t", pid, epoch) == 0
    cluster.kafka.freeze_replica("t", 0, 2)
    assert commit(cluster, old, pid, epoch) == 0
    assert transaction_state(cluster, old) == (0, "PrepareCommit")  # the marker is not replicated
    assert cluster.fetch(1, "t", committed=True)[1:3] == (1, 0)
    assert initialized(cluster, old)[0] == CONCURRENT
    new = move_coordinator(cluster, "transaction", "till")
    assert initialized(cluster, old)[0] == NOT_COORDINATOR
    assert initialized(cluster, new)[0] == CONCURRENT
    cluster.kafka.thaw_replica("t", 0, 2)
    assert transaction_state(cluster, new) == (0, "CompleteCommit")
    assert cluster.fetch(1, "t", committed=True)[1:3] == (2, 2)
    assert write_in_transaction(cluster, 1, "t", pid, epoch + 1) == 0
    assert commit(cluster, new, pid, epoch + 1) == 0
    assert cluster.kafka.producers("t", 0)[pid].coordinator_epoch == 1  # the leader epoch of the coordinator's log


def test_d3_a_new_coordinator_does_not_know_the_epoch_before_the_last(start: Start) -> None:
    cluster = start()
    old = coordinator(cluster, "transaction", "till")
    _, pid, epoch = initialized(cluster, old)
    assert [initialized(cluster, old, pid, epoch) for _ in range(2)] == [(0, pid, epoch + 1)] * 2
    new = move_coordinator(cluster, "transaction", "till")
    assert initialized(cluster, new, pid, epoch)[0] == FENCED
    assert initialized(cluster, new, pid, epoch + 1) == (0, pid, epoch + 2)


def test_d3_a_marker_that_a_new_leader_does_not_have_is_written_again(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    node = coordinator(cluster, "transaction", "till")
    _, pid, epoch = initialized(cluster, node)
    assert write_in_transaction(cluster, 1, "t", pid, epoch) == 0
    cluster.kafka.freeze_replica("t", 0, 2)
    assert commit(cluster, node, pid, epoch) == 0
    cluster.kill(1)
    node = coordinator(cluster, "transaction", "till")
    assert transaction_state(cluster, node) == (0, "CompleteCommit")
    assert [record.control for record in cluster.kafka.records("t")] == [False, True]
    assert cluster.fetch(2, "t", committed=True)[1:3] == (2, 2)


def test_d3_a_transaction_ends_once_its_partition_is_back(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1)
    node = coordinator(cluster, "transaction", "till")
    if node == 1:
        node = move_coordinator(cluster, "transaction", "till")
    _, pid, epoch = initialized(cluster, node)
    assert write_in_transaction(cluster, 1, "t", pid, epoch) == 0
    cluster.kill(1)
    assert commit(cluster, node, pid, epoch) == 0
    cluster.kafka.clock.advance(hours=1)
    assert transaction_state(cluster, node) == (0, "PrepareCommit")
    cluster.kafka.start_broker(1)
    assert transaction_state(cluster, node) == (0, "CompleteCommit")
    assert [record.control for record in cluster.kafka.records("t")] == [False, True]


def test_d3_a_coordinator_writes_nothing_while_too_few_replicas_of_its_log_are_in_sync(start: Start) -> None:
    cluster = start(configs={"transaction.state.log.min.isr": 2})
    create(cluster, "t", 1)
    first = coordinator(cluster, "transaction", "till")
    _, pid, epoch = initialized(cluster, first)
    others = [node for node in (1, 2, 3) if node != first]
    for node in others:
        cluster.kill(node)
    assert initialized(cluster, first)[0] == COORDINATOR_NOT_AVAILABLE
    assert commit(cluster, first, pid, epoch + 9) == FENCED
    cluster.kafka.start_broker(others[0])
    assert initialized(cluster, first) == (0, pid, epoch + 1)


# Brokers


def test_a_dead_broker_refuses_connections_until_it_is_started(start: Start) -> None:
    cluster = start()
    assert cluster.wire(1).request(plain("DescribeCluster"), 2).controller_id == 1
    cluster.kafka.kill_broker(1)
    with pytest.raises(ConnectionClosed):
        cluster.wire(1).request(plain("DescribeCluster"), 2)  # this request uses the old connection
    with pytest.raises(ConnectionClosed):
        cluster.wire(1).request(plain("DescribeCluster"), 2)  # this request uses a new connection
    shown = cluster.wire(2).request(plain("DescribeCluster"), 2)
    assert ([broker.broker_id for broker in shown.brokers], shown.controller_id) == ([2, 3], 2)
    fenced = cluster.wire(2).request(plain("DescribeCluster", include_fenced_brokers=True), 2)
    assert {broker.broker_id: broker.is_fenced for broker in fenced.brokers} == {1: True, 2: False, 3: False}
    cluster.kafka.start_broker(1)
    assert len(cluster.wire(1).request(plain("DescribeCluster"), 2).brokers) == 3


def test_a_killed_broker_forgets_its_block_of_producer_ids_and_its_fetch_sessions(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1)
    request = cluster.fetch_request("t", 0, epoch=-1, last=-1, wait_ms=0, committed=False)
    request.session_epoch = 0
    session = cluster.wire(1).request(request, 12).session_id
    init = init_producer_id(None, 1000)
    assert (session > 0, cluster.wire(1).request(init, 4).producer_id) == (True, 0)
    cluster.kill(1)
    cluster.kafka.start_broker(1)
    request.session_id, request.session_epoch = session, 1
    assert error_name(cluster.wire(1).request(request, 12).error_code) == "FETCH_SESSION_ID_NOT_FOUND"
    assert cluster.wire(1).request(init, 4).producer_id == 1000


def test_a_topic_that_is_created_while_a_broker_is_down(start: Start) -> None:
    cluster = start()
    cluster.kill(2)
    cluster.kafka.create_topic("new", replication_factor=3)
    create(cluster, "mine", 2, 3)
    assert cluster.describe("new") == Described(1, 0, [1, 3], [], [], [2])
    assert cluster.kafka.partition("new").replicas == [1, 3, 2]
    assert cluster.describe("mine") == Described(3, 0, [3], [], [], [2])
    assert cluster.produce(3, "mine").error == "NONE"
    cluster.kafka.start_broker(2)
    assert cluster.describe("mine") == Described(3, 0, [2, 3], [], [], [])
    cluster.kafka.move_leader("mine", to=2)
    assert len(cluster.kafka.records("mine")) == 1


def test_partitions_whose_brokers_are_all_down_are_not_made(start: Start) -> None:
    cluster = start()
    cluster.kafka.create_topic("t", replication_factor=1)
    cluster.kill(2)
    cluster.kill(3)
    refused = "All brokers specified in the manual partition assignment for partition {} are fenced or in controlled shutdown."
    created = sole(cluster.anyone().request(create_topics(new_topic("dead", -1, -1, on=[(0, [3, 2])])), 7).topics)
    assert (error_name(created.error_code), created.error_message) == ("INVALID_REPLICA_ASSIGNMENT", refused.format(0))
    more = {"name": "t", "count": 2, "assignments": [{"broker_ids": [3]}]}
    grown = sole(cluster.anyone().request(plain("CreatePartitions", topics=[more], timeout_ms=1000), 3).results)
    assert (error_name(grown.error_code), grown.error_message) == ("INVALID_REPLICA_ASSIGNMENT", refused.format(1))
    cluster.kill(1)
    for what in (lambda: cluster.kafka.create_topic("dead"), lambda: cluster.kafka.produce("dead", value=b"x")):
        with pytest.raises(ValueError, match=".dead. cannot be created, because all brokers are down"):
            what()
    cluster.kafka.start_broker(1)
    assert cluster.kafka.create_topic("dead") is None


def test_retention_keeps_records_that_are_not_replicated(start: Start) -> None:
    cluster = start(configs={"log.retention.check.interval.ms": 1000})
    kafka = cluster.kafka
    create(cluster, "g", 1, 2, 3, retention_ms=5000, min_insync_replicas=3)
    cluster.produce(1, "g", 2)
    for node in (2, 3):
        kafka.freeze_replica("g", 0, node)
    cluster.produce(1, "g", 3, acks=1)
    kafka.clock.advance(seconds=20)
    state = kafka.partition("g")
    assert (state.log_start_offset, state.high_watermark, state.log_end_offset) == (0, 2, 5)
    for node in (2, 3):
        kafka.thaw_replica("g", 0, node)
    kafka.clock.advance(seconds=2)
    state = kafka.partition("g")
    assert (state.log_start_offset, state.high_watermark, state.log_end_offset) == (5, 5, 5)


def test_a_new_leader_has_no_high_watermark_before_the_log_start(start: Start) -> None:
    """The frozen replica 2 has the record, but does not learn that the high watermark advances and the record is deleted."""
    cluster = start(configs={"log.retention.check.interval.ms": 1000})
    kafka = cluster.kafka
    create(cluster, "g", 1, 2, 3, retention_ms=40_000, min_insync_replicas=2)
    kafka.freeze_replica("g", 0, 3)
    cluster.produce(1, "g", acks=1)
    kafka.freeze_replica("g", 0, 2)
    kafka.clock.advance(seconds=60)
    cluster.kill(1)
    state = kafka.partition("g")
    assert (state.leader, state.log_start_offset, state.high_watermark, state.log_end_offset) == (2, 1, 1, 1)
    assert cluster.fetch(2, "g", 1).high_watermark == 1


def test_leader_epochs_before_the_log_start_are_forgotten(start: Start) -> None:
    """As in Kafka's LeaderEpochFileCache.truncateFromStart."""
    cluster = start()
    create(cluster, "g", 1, 2)
    for leader in (1, 2, 1):
        if cluster.describe("g").leader != leader:
            cluster.kafka.move_leader("g", to=leader)
        cluster.produce(leader, "g", 5)
    assert [cluster.epoch_end(1, "g", epoch)[1:] for epoch in range(3)] == [(0, 5), (1, 10), (2, 15)]
    cluster.delete_records(1, "g", 7)
    assert cluster.deleted(1) == ("NONE", 7)
    assert [cluster.epoch_end(1, "g", epoch)[1:] for epoch in range(3)] == [(0, 7), (1, 10), (2, 15)]
    cluster.delete_records(1, "g", 12)
    assert cluster.deleted(1) == ("NONE", 12)
    assert [cluster.epoch_end(1, "g", epoch)[1:] for epoch in range(3)] == [(0, 12), (1, 12), (2, 15)]


def test_a_frozen_replica_has_no_last_stable_offset_before_its_log_start(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2)
    kafka = cluster.kafka
    part = kafka._call(lambda engine: engine.cluster.topics["g"].partitions[0])
    data = batch(0, 3, pid=1, epoch=0, timestamp=kafka.clock.now(), transactional=True)
    part.start_verification(1, 0, 0, True, kafka.clock.now())
    assert part.append(memoryview(data), kafka.clock.now(), 12, verified=True).error_code == 0
    cluster.delete_records(1, "g", 2)
    assert cluster.deleted(1) == ("NONE", 2)
    kafka.freeze_replica("g", 0, 2)
    for node in (1, 2):
        assert cluster.fetch(node, "g", 2, committed=True)[1:3] == (3, 2)


def test_a_producer_that_is_expired_is_forgotten_by_all_replicas(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2)
    cluster.produce(1, "g", pid=7, seq=0)
    cluster.kafka.freeze_replica("g", 0, 2)
    assert cluster.kafka.expire_producer(7)
    cluster.kill(1)
    assert cluster.kafka.partition("g").leader == 2
    assert cluster.kafka.producers("g", 0) == {}


def test_a_truncated_replica_has_no_high_watermark_beyond_its_end(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2, 3)
    for _ in range(5):
        cluster.produce(1, "g")
    cluster.kafka.freeze_replica("g", 0, 3)
    cluster.produce(1, "g", 1, acks=1)
    cluster.kafka.truncate("g", 0, 2)
    assert cluster.fetch(3, "g").high_watermark == 2


def test_the_trace_shows_changes_of_brokers_and_replicas(start: Start) -> None:
    cluster = start(trace="changes")
    create(cluster, "t", 1, 2)
    cluster.kafka.freeze_replica("t", 0, 2)
    cluster.produce(1, "t", acks=1)
    cluster.kafka.clock.advance(seconds=31)
    cluster.kill(1)
    cluster.kafka.start_broker(1)
    shown = [line(row).split(" changed ")[1].strip() for row in cluster.kafka.trace.events("broker", "isr", "leader")]
    assert shown == [
        "in sync: 1; high watermark 1", "killed", "in sync: nobody; high watermark 1", "without a leader in epoch 1",
        "started", "in sync: 1; high watermark 1", "led by node 1 in epoch 2",
    ]  # fmt: skip


def test_a_restart_of_all_brokers_brings_everything_back(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    cluster.produce(1, "t", 2)
    cluster.kafka.freeze_replica("t", 0, 2)
    cluster.produce(1, "t", 1, acks=1)
    cluster.kafka.kill_broker(1)
    cluster.kafka.kill_broker(2)
    cluster.kafka.restart("kill")
    found = cluster.kafka.partition("t")
    assert (found.leader, found.in_sync, found.offline) == (2, [1, 2], [])
    assert (found.high_watermark, found.log_end_offset) == (2, 2)
    fresh = Cluster(cluster.kafka)
    assert fresh.produce(2, "t").offset == 2


def test_impossible_changes_are_refused_with_a_message(start: Start) -> None:
    cluster = start()
    create(cluster, "t", 1, 2)
    kafka = cluster.kafka
    coordinator(cluster, "group", "team")
    for what, sentence in (
        (lambda: kafka.kill_broker(4), r"there is no broker 4; there are \[1, 2, 3\]"),
        (lambda: kafka.move_leader("t", to=3), r"broker 3 has no replica of t-0, which is on \[1, 2\]"),
        (lambda: kafka.move_leader("none", to=1), "there is no partition none-0"),
        (lambda: kafka.freeze_replica("t", 0, 1), "broker 1 leads t-0; only a follower can be frozen"),
        (lambda: kafka.freeze_replica("t", 0, 3), "broker 3 has no replica of t-0"),
        (lambda: kafka.freeze_replica("__consumer_offsets", 0, 3), "coordinators write without waiting"),
        (lambda: kafka.create_topic("much", replication_factor=4), "3 brokers cannot hold 4 replicas"),
    ):
        with pytest.raises(ValueError, match=sentence):
            what()
    kafka.kill_broker(2)
    with pytest.raises(ValueError, match="broker 2 is already down"):
        kafka.kill_broker(2)
    with pytest.raises(ValueError, match="broker 2 is down"):
        kafka.freeze_replica("t", 0, 2)
    with pytest.raises(ValueError, match=r"broker 2 cannot lead t-0: .*the in-sync replicas \[1\]"):
        kafka.move_leader("t", to=2)
    kafka.kill_broker(1)
    with pytest.raises(ValueError, match="t-0 has no leader"):
        kafka.produce("t", value=b"x")


def elect(cluster: Cluster, kind: int, *partitions: tuple[str, int]) -> list[tuple[str, int, str]]:
    asked = [{"topic": topic, "partitions": [index]} for topic, index in partitions] or None
    request = plain("ElectLeaders", election_type=kind, topic_partitions=asked)
    response = cluster.anyone().request(request, 2, "admin")
    assert response.error_code == (0 if kind in (0, 1) else 42)
    return [
        (topic.topic, each.partition_id, error_name(each.error_code))
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


def test_elect_leaders(start: Start) -> None:
    cluster = start()
    create(cluster, "w", 2, 1)
    create(cluster, "x", 3, 1)
    assert elect(cluster, 0, ("w", 0), ("x", 9), ("none", 0)) == [
        ("w", 0, "ELECTION_NOT_NEEDED"), ("x", 9, "UNKNOWN_TOPIC_OR_PARTITION"), ("none", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]  # fmt: skip
    assert elect(cluster, 7, ("w", 0)) == [("w", 0, "INVALID_REQUEST")]
    cluster.kill(2)
    assert elect(cluster, 0) == [("w", 0, "PREFERRED_LEADER_NOT_AVAILABLE")]
    assert elect(cluster, 1, ("w", 0)) == [("w", 0, "ELECTION_NOT_NEEDED")]
    cluster.kill(1)
    assert elect(cluster, 1, ("w", 0)) == [("w", 0, "ELIGIBLE_LEADERS_NOT_AVAILABLE")]
    cluster.kafka.start_broker(2)
    assert cluster.describe("w").leader == -1  # broker 2's replica was not in sync when the last leader died
    assert elect(cluster, 1, ("w", 0)) == [("w", 0, "NONE")]
    assert cluster.describe("w") == Described(2, 3, [2], [], [], [1])
    cluster.kafka.start_broker(1)
    cluster.kafka.move_leader("w", to=1)
    assert elect(cluster, 0) == [("w", 0, "NONE")]
    assert cluster.describe("w").leader == 2


def test_leaders_move_back_every_five_minutes(start: Start) -> None:
    cluster = start()
    create(cluster, "w", 2, 1)
    create(cluster, "behind", 3, 1)
    cluster.kill(2)
    cluster.kill(3)
    cluster.kafka.start_broker(2)
    advance = cluster.kafka.clock.advance
    advance(milliseconds=299_999)
    assert (cluster.describe("w").leader, cluster.describe("behind").leader) == (1, 1)
    advance(milliseconds=1)
    assert (cluster.describe("w").leader, cluster.describe("behind").leader) == (2, 1)
    cluster.kafka.restart()  # this also starts broker 3
    advance(seconds=299)
    assert leader_of(cluster, "behind") == 1
    advance(seconds=1)
    assert leader_of(cluster, "behind") == 3


REASSIGNMENTS = Path(__file__).parent / "data" / "reassignments-4.3.1.json"


class Ours:
    """Three brokers of wirebroker. Has the methods that `reassignment_steps.play` calls."""

    def __init__(self, cluster: Cluster) -> None:
        self.wire = cluster.wire(1)
        self.stop, self.start = cluster.kafka.kill_broker, cluster.kafka.start_broker

    def settle(self) -> None:
        """Does nothing, because these followers do not lag."""


def test_replicas_move_as_in_a_recorded_kafka(start: Start) -> None:
    recorded = json.loads(REASSIGNMENTS.read_text(encoding="utf-8"))
    played = reassignment_steps.play(Ours(start()))
    for told, (step, seen) in zip(recorded, played, strict=True):
        assert (step, seen) == (told["step"], told["observed"])


def reassign(cluster: Cluster, topic: str, replicas: list[int] | None) -> int:
    parts = [{"partition_index": 0, "replicas": replicas}]
    request = plain("AlterPartitionReassignments", topics=[{"name": topic, "partitions": parts}])
    code: int = sole(sole(cluster.anyone().request(request, 1).responses).partitions).error_code
    return code


def test_a_reassignment_can_take_time(start: Start) -> None:
    """While a reassignment is in progress, it is listed and can be cancelled. The tests of kafkajs expect this."""
    cluster = start()
    brokers, kafka = Ours(cluster), cluster.kafka
    slow = kafka.faults.add(faults.slow_reassignment(ms=2000, api="AlterPartitionReassignments"))
    create(cluster, "w", 1, 2)
    cluster.produce(1, "w")

    def seen() -> tuple[dict[str, list[list[int]]], list[int], list[int]]:
        (shown,) = reassignment_steps.partitions(brokers, "w")
        return reassignment_steps.moving(brokers), shown["replicas"], shown["in_sync"]

    for cancelled in (True, False):
        assert reassign(cluster, "w", [3, 2]) == 0
        assert seen() == ({"w": [[3, 2, 1], [3], [1]]}, [3, 2, 1], [1, 2]), "the reassignment waits for the new replica"
        if cancelled:
            assert reassign(cluster, "w", None) == 0
            assert seen() == ({}, [2, 1], [1, 2])
        kafka.clock.advance(seconds=2)
    assert seen() == ({}, [3, 2], [2, 3])
    assert slow.fired == 3
    assert cluster.end(3, "w")[:2] == ("NONE", 1), "broker 3 is the leader, because the first leader is no longer a replica"


def test_a_new_replica_that_never_caught_up_has_no_records(start: Start) -> None:
    cluster = start()
    create(cluster, "w", 2)
    assert cluster.produce(2, "w", 3).offset == 0
    cluster.kill(3)
    assert reassign(cluster, "w", [3]) == 0
    cluster.kill(2)
    cluster.kafka.start_broker(3)
    assert cluster.describe("w").leader == -1
    assert elect(cluster, 1, ("w", 0)) == [("w", 0, "NONE")]
    assert cluster.describe("w")[:3] == (3, 2, [3])
    assert cluster.produce(3, "w").offset == 0
    cluster.kafka.start_broker(2)
    assert cluster.describe("w")[:3] == (3, 3, [3]), "the new leader completes the reassignment"


def leader_of(cluster: Cluster, topic: str) -> int:
    return cluster.kafka._call(lambda engine: engine.cluster.topics[topic].partitions[0].leader)


def test_leaders_stay_where_they_are_without_rebalancing(start: Start) -> None:
    cluster = start(configs={"auto.leader.rebalance.enable": False})
    create(cluster, "w", 2, 1)
    cluster.kafka.move_leader("w", to=1)
    cluster.kafka.clock.advance(days=1)
    assert cluster.describe("w").leader == 1


def test_d3_a_frozen_replica_that_is_made_leader_loses_what_it_lacks(start: Start) -> None:
    cluster = start()
    create(cluster, "g", 1, 2, 3)
    cluster.produce(1, "g", 2, seq=0)
    cluster.kafka.freeze_replica("g", 0, 2)
    cluster.produce(1, "g", seq=2, acks=1)
    cluster.kafka.move_leader("g", to=2)
    state = cluster.kafka.partition("g")
    assert (state.leader, state.leader_epoch, state.replicas, state.in_sync) == (2, 1, [1, 2, 3], [1, 2, 3])
    assert cluster.end(2, "g") == ("NONE", 2, 1)
    assert cluster.produce(2, "g", seq=2) == Told("NONE", 2, 0)
    cluster.kafka.move_leader("g", to=3)  # broker 3's replica had more records, and truncated them as well
    assert dups(cluster, 3, "g", 2) == ["NONE"]
    assert cluster.kafka.partition("g").log_end_offset == 3


# Offsets and epochs


@pytest.fixture
def three() -> InProcess:
    return InProcess(brokers=3, topics={"t": {"replication_factor": 3}}, configs={"replica.lag.time.max.ms": 10_000})


def test_list_offsets_finds_no_time_beyond_the_last_stable_offset() -> None:
    producer = TransactionalProducer(InProcess(topics=["t"]))

    def found(isolation: int) -> int:
        return int(only(producer.ask(list_offsets(0, topic="t", isolation_level=isolation), 6)).offset)

    assert producer.init() == producer.send("v", topic="t").error_code == 0
    assert (found(0), found(1)) == (0, -1)  # the transaction is open
    assert producer.end() == 0
    assert (found(0), found(1)) == (0, 0)


def test_list_offsets_finds_no_time_beyond_the_high_watermark(three: InProcess) -> None:
    three.freeze_replica("t", 0, 2)
    Dialogue(three) >> produce_request("t", batch(-1, 1, pid=-1, epoch=-1), acks=1) << accepted(at=0)
    assert three.engine.cluster.topics["t"].partitions[0].high_watermark == 0
    Dialogue(three) >> list_offsets(0, topic="t") << answered(error_code=0, offset=-1)


def test_only_a_replica_in_sync_may_be_made_the_leader(three: InProcess) -> None:
    three.freeze_replica("t", 0, 2)
    Dialogue(three) >> produce_request("t", batch(-1, 1, pid=-1, epoch=-1), acks=1) << accepted(at=0)
    three.clock.advance(seconds=16)
    partition = three.engine.cluster.topics["t"].partitions[0]
    assert 2 not in partition.in_sync
    with pytest.raises(ValueError, match="broker 2 cannot lead t-0: the leader must be"):
        three.engine.controller.move_leader("t", 0, 2, three.clock.now())
    assert partition.leader == 1


def test_the_leader_that_completes_a_reassignment_knows_no_verification_of_its_predecessor(three: InProcess) -> None:
    partition, now = three.engine.cluster.topics["t"].partitions[0], three.clock.now()
    three.kill_broker(3)
    three.engine.controller.reassign(partition, [3], now)
    partition.start_verification(1000, 0, 0, False, now)
    three.start_broker(3)
    assert (partition.leader, partition.transactions.verifications) == (3, {})


def test_an_epoch_without_records_is_forgotten(three: InProcess) -> None:
    """Like Kafka's LeaderEpochFileCache, the broker drops an epoch if the next epoch begins at the same offset."""
    partition = three.engine.cluster.topics["t"].partitions[0]
    first = partition.leader_epoch
    Dialogue(three) >> produce_request("t", batch(-1, 1, pid=-1, epoch=-1)) << accepted(at=0)
    for node in (2, 1):
        three.engine.controller.move_leader("t", 0, node, three.clock.now())
    Dialogue(three) >> produce_request("t", batch(-1, 1, pid=-1, epoch=-1)) << accepted(at=1)
    assert partition.leader_epoch == first + 2
    assert partition.end_offset_for_epoch(first + 1) == (first, 1)


def test_after_a_kill_the_log_begins_where_the_last_checkpoint_says() -> None:
    """Kafka writes the checkpoint of log start offsets each minute."""
    broker = InProcess(topics=["t"])
    for offset in range(3):
        Dialogue(broker) >> produce_request("t", batch(-1, 1, pid=-1, epoch=-1)) << accepted(at=offset)
    broker.clock.advance(seconds=61)
    for offset in (1, 2):
        Dialogue(broker) >> delete_records(offset, topic="t") << answered(error_code=0)
    broker.restart("kill")
    assert broker.engine.cluster.topics["t"].partitions[0].log_start_offset == 0


@pytest.mark.parametrize("leads", ["at once", "later", "after a freeze"])
def test_a_restarted_replica_without_records_knows_no_open_transaction(leads: str) -> None:
    """As in Kafka, a broker that starts with an empty log deletes the snapshot of the producers, and so forgets an open
    transaction. The coordinator still knows the transaction."""
    broker = InProcess(brokers=3)
    broker.engine.cluster.create_topic("orders", broker.clock.now(), assignment={0: (1, 2, 3)})
    producers = (TransactionalProducer(broker, str(number)) for number in range(20))
    producer = next(each for each in producers if each.init() == 0)  # the first whose coordinator is on broker 1
    producer.send("a")
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    partition.delete_records(1, broker.clock.now())
    controller, now = broker.engine.controller, broker.clock.now()
    for node in (2, 3, 1) if leads == "at once" else (1,):
        controller.broker_down(node, now)
    controller.broker_up(1, now)
    if leads == "later":
        controller.move_leader("orders", 0, 1, now)
    elif leads == "after a freeze":
        controller.freeze_replica("orders", 0, 1, now)
        for node in (2, 3):
            controller.broker_down(node, now)
    assert (partition.leader, partition.producers) == (1, {})
    assert partition.transactions.first_unstable() is None
    assert partition.last_stable_offset == partition.high_watermark == 1
