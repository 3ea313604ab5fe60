"""A soft reset: the broker deletes the records and the state of the last test, and its clients continue."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from actors import NEW, OLD, Reader
from dialogue import tagged
from kafkawire.batches import iter_batches, iter_records
from kafkawire.messages.produce import ProduceResponse
from requesting import (
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    leave_group,
    offset_commit,
    plain,
    produce_request,
    sync_group,
)
from responses import only, sole
from test_authentication import log_in
from test_handshake_faults import greeted
from test_share_groups import ACCEPT, Shared
from test_tls import context
from test_transactions import started
from wirebroker import MockKafka, faults
from wirebroker.client.wire import Connection, ConnectionClosed, Limits, address_of
from wirebroker.core.metadata_writes import Decisions
from wirebroker.core.purgatory import Timers
from wirebroker.faults.rules import KINDS
from wirekit import RawProducer, batch, client, lacking

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "soft-reset"
OFFSET_OUT_OF_RANGE = 1
Start = Callable[..., MockKafka]


@pytest.fixture
def kafka(mock_kafka_factory: Start) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 1, "results": 1})


@pytest.mark.parametrize(("name", "tool"), [
    ("kafka-python", ""), ("aiokafka", ""), ("confluent-kafka", ""), ("java", "java"), ("spring", "java"), ("franz-go", "go"),
    ("kafkajs", "node"),
])  # fmt: skip
def test_a_service_lives_on(name: str, tool: str) -> None:
    command = [sys.executable, SCRIPT, "--offline", "--clients", name, "--rounds", "3"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if tool and run.returncode == 2:
        lacking(tool, run.stdout)
    assert run.returncode == 0, run.stdout


# State that a soft reset keeps, and state that it resets


def test_a_fetch_session_keeps_the_time_after_which_it_may_be_evicted(mock_kafka_factory: Start) -> None:
    slots = {"max.incremental.fetch.session.cache.slots": 1}
    kafka = mock_kafka_factory(topics={"orders": 1}, configs=slots, clock="frozen")
    kafka.clock.advance(hours=1)
    first = client(kafka).request(fetch(session_epoch=0), 11).session_id
    kafka.reset(soft=True)
    sessions = []
    for seconds in (119, 2):
        kafka.clock.advance(seconds=seconds)
        sessions.append(client(kafka).request(fetch(session_epoch=0), 11).session_id)
    assert sessions[0] == 0
    assert sessions[1] not in (0, first)


def test_clients_stay_and_their_next_requests_succeed(kafka: MockKafka) -> None:
    producer = RawProducer(kafka)
    producer.send(0)
    kafka.create_topic("more")
    before = topic_ids(kafka)
    kafka.reset(soft=True)
    assert producer.send(1).base_offset == 1, "offset 0 is not used again"
    assert [record.offset for record in kafka.records("orders")] == [1]
    assert [row.rule for row in kafka.trace.produce()] == ["next"], "the trace was emptied, but the producer's state was kept"
    assert topic_ids(kafka) == before
    kafka.audit().assert_exactly_once(intended=[("orders", None, b"v1")])


def test_a_deleted_topic_of_the_start_comes_back(kafka: MockKafka) -> None:
    kafka.delete_topic("orders")
    kafka.reset(soft=True)
    assert set(kafka.topics()) == {"orders", "results"}


@pytest.mark.parametrize("version", [OLD, NEW])
def test_an_open_transaction_goes_on_without_its_first_records(kafka: MockKafka, version: int) -> None:
    producer, reader = started(kafka, version=version), client(kafka)
    if version == OLD:
        assert producer.add() == 0
    assert producer.send("old").error_code == 0
    assert Reader(kafka).committed_offset("g") == (0, -1)
    assert producer.send_offsets("g", 1, version=3 if version == OLD else 5) == 0
    reader.send(fetch(0, isolation_level=1, wait_ms=20_000), 12)
    kafka.reset(soft=True)
    kafka.produce("orders", value="of another")
    assert values(only(reader.response())) == [b"of another"], "the reset ended the open transaction"
    assert Reader(kafka).committed_offset("g") == (0, -1), "no pending offset of the transaction is left"
    assert producer.send("new").error_code == 0
    assert kafka.partition("orders").last_stable_offset == 2
    assert producer.end(commit=True) == 0
    assert Reader(kafka).committed_offset("g") == (0, -1)
    response = only(reader.request(fetch(1, isolation_level=1), 12))
    assert values(response)[:2] == [b"of another", b"new1"]
    assert response.aborted_transactions == []


@pytest.mark.parametrize("offset", [0, 2], ids=["from_the_start", "in_between"])
def test_a_consumer_that_lags_continues_with_the_first_new_record(kafka: MockKafka, offset: int) -> None:
    wire = client(kafka)
    wire.request(tagged("old", 3), 9)
    kafka.reset(soft=True)
    assert only(wire.request(fetch(offset), 12)).error_code == 0
    wire.send(fetch(offset, wait_ms=20_000), 12)
    client(kafka).request(tagged("new", 1), 9)
    assert values(only(wire.response())) == [b"new0"]
    assert only(wire.request(fetch(-1), 12)).error_code == OFFSET_OUT_OF_RANGE
    assert only(wire.request(fetch(5), 12)).error_code == OFFSET_OUT_OF_RANGE
    wire.request(tagged("newer", 1), 9)
    deleted = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 5}]}
    ask(kafka, "DeleteRecords", 1, topics=[deleted], timeout_ms=1000)
    assert only(wire.request(fetch(offset), 12)).error_code == OFFSET_OUT_OF_RANGE, "DeleteRecords works as usual after a reset"


def test_faults_and_what_they_have_done_go_back(kafka: MockKafka) -> None:
    held = kafka.faults.add(faults.delay(60_000, api="Produce", nth=1))
    lost = kafka.faults.add(faults.lose_ack(api="Produce", nth=2, then="silence"))
    delayed, silenced = RawProducer(kafka), RawProducer(kafka)
    delayed.wire.send(produce_request("orders", batch(0, 1, pid=delayed.pid, epoch=0)), 9)
    kafka.wait_until(lambda: held.fired == 1)
    silenced.wire.send(produce_request("orders", batch(0, 1, pid=silenced.pid, epoch=0)), 9)
    kafka.wait_until(lambda: lost.fired == 1)
    kafka.reset(soft=True)
    assert kafka.faults.rules == []
    assert only(delayed.wire.response()).base_offset == 1, "the delayed request was handled before the logs were emptied"
    assert kafka.records("orders") == []
    with pytest.raises(ConnectionClosed):
        silenced.wire.response()


def test_a_delayed_request_is_handled_at_the_time_to_which_the_clock_was_set_back(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics=["orders"], clock="frozen")
    kafka.clock.advance(days=8)
    wire = client(kafka)
    wire.request(find_coordinator("g"), 4)
    member = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 5000, "subscribed_topic_names": ["orders"]}
    joined = wire.request(plain("ConsumerGroupHeartbeat", **member, member_epoch=0, topic_partitions=[]), 1)
    held = kafka.faults.add(faults.delay(5000, api="ConsumerGroupHeartbeat"))
    wire.send(plain("ConsumerGroupHeartbeat", **member, member_epoch=joined.member_epoch, topic_partitions=[]), 1)
    kafka.wait_until(lambda: held.fired == 1)
    kafka.reset(soft=True)
    kafka.clock.advance(seconds=46)
    assert kafka.groups()["g"].state == "Empty", "the member's session has ended"


def test_a_connection_that_a_fault_was_to_close_later_stays_open(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics=["orders"], clock="frozen", faults=faults.close(ms=9000, api="Metadata"))
    wire = client(kafka)
    wire.request(plain("Metadata", topics=None), 9)
    kafka.reset(soft=True)
    kafka.clock.advance(seconds=10)
    assert wire.request(plain("Metadata", topics=None), 9).topics
    kafka.clock.advance(seconds=10)
    with pytest.raises(ConnectionClosed):
        wire.request(plain("Metadata", topics=None), 9)


def test_brokers_replicas_and_leaders_go_back(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(brokers=3, topics={"orders": {"partitions": 2, "replication_factor": 3}})
    before = [kafka.partition("orders", index).leader for index in (0, 1)]
    kafka.freeze_replica("orders", 0, next(node for node in (1, 2, 3) if node not in before))
    kafka.kill_broker(before[0])
    kafka.move_leader("orders", 1, to=kafka.partition("orders", 0).leader)
    kafka.produce("orders", value="x", partition=0)
    kafka.reset(soft=True)
    assert all(broker.alive for broker in kafka.brokers().values())
    for index, leader in enumerate(before):
        state = kafka.partition("orders", index)
        assert (state.leader, sorted(state.in_sync)) == (leader, [1, 2, 3])
        assert state.log_start_offset == state.high_watermark == state.log_end_offset


def test_reassignments_are_completed_and_slow_no_more(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(brokers=2, topics=["orders"])
    kafka.faults.add(faults.slow_reassignment(ms=60_000, api="AlterPartitionReassignments"))
    first = kafka.partition("orders").leader
    other = 3 - first

    def reassigned(to: int) -> tuple[list[int], list[int]]:
        partitions = [{"partition_index": 0, "replicas": [to]}]
        ask(kafka, "AlterPartitionReassignments", 0, timeout_ms=1000, topics=[{"name": "orders", "partitions": partitions}])
        state = kafka.partition("orders")
        return state.replicas, state.in_sync

    assert reassigned(other) == ([other, first], [first])
    kafka.reset(soft=True)
    state = kafka.partition("orders")
    assert (state.replicas, state.in_sync) == ([other], [other])
    assert reassigned(first) == ([first], [first])


def test_the_clock_goes_back_and_sessions_have_as_long_to_go(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics=["orders"], clock="frozen")
    began = kafka.clock.now()
    kafka.clock.advance(days=8)
    ask(kafka, "FindCoordinator", 4, key_type=0, coordinator_keys=["g"])
    joined = ask(
        kafka, "ConsumerGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=5000,
        subscribed_topic_names=["orders"], topic_partitions=[],
    )  # fmt: skip
    assert joined.error_code == 0
    producer = started(kafka, timeout_ms=30_000)
    producer.send("open")
    kafka.clock.advance(seconds=10)
    kafka.reset(soft=True)
    assert kafka.clock.now() == began
    kafka.clock.advance(seconds=19)
    assert (kafka.groups()["g"].state, kafka.transactions()["till"].state) == ("Stable", "Ongoing")
    kafka.clock.advance(seconds=17)
    assert (kafka.groups()["g"].state, kafka.transactions()["till"].state) == ("Empty", "CompleteAbort")


def test_a_share_group_begins_at_the_end(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics={"t": 1})
    for value in "abc":
        kafka.produce("t", value=value)
    shared = Shared(kafka)
    assert shared.acquire("member", max_records=1) == [(0, 0, 1)]
    kafka.reset(soft=True)
    topics = [{"topic_name": "t", "partitions": [0]}]
    described = ask(kafka, "DescribeShareGroupOffsets", 0, groups=[{"group_id": "g", "topics": topics}])
    assert only(described.groups[0]).start_offset == 3
    kafka.produce("t", value="new")
    settled = shared.fetch("member", [(0, 0, ACCEPT)])
    assert (settled.acknowledge_error_code, shared.acquired(settled)) == (0, [(3, 3, 1)])


def test_a_kill_does_not_bring_records_back(kafka: MockKafka) -> None:
    kafka.produce("orders", value="old")
    kafka.reset(soft=True)
    kafka.produce("orders", value="new")
    kafka.restart("kill")
    assert [record.value for record in kafka.records("orders")] == [b"new"]


def test_after_a_kill_the_clock_that_went_back_does_not_bring_more_records_back(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, clock="frozen")
    kafka.produce("orders", value="old")
    kafka.clock.advance(hours=1)
    delete_up_to(kafka, 1)
    kafka.reset(soft=True)
    for end in (2, 3):
        kafka.produce("orders", value="new")
        kafka.clock.advance(minutes=2)  # a broker writes down the beginning of a log once per minute
        delete_up_to(kafka, end)
    kafka.restart("kill")
    assert kafka.partition("orders").log_start_offset == 2


def delete_up_to(kafka: MockKafka, offset: int) -> None:
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "offset": offset}]}
    deleted = ask(kafka, "DeleteRecords", 2, topics=[asked], timeout_ms=1000)
    assert only(deleted).low_watermark == offset


def test_the_offsets_of_an_empty_group_expire_although_the_clock_went_back(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, clock="frozen")
    kafka.produce("orders", value="old")
    kafka.clock.advance(days=30)
    client(kafka).request(find_coordinator("g"), 4)
    joined = client(kafka).request(join_group("g"), 3)
    client(kafka).request(sync_group("g", joined.member_id, joined.generation_id), 3)
    client(kafka).request(offset_commit("g", 0, joined.member_id, joined.generation_id), 7)
    client(kafka).request(leave_group("g", joined.member_id), 3)
    kafka.reset(soft=True)
    assert Reader(kafka).committed_offset("g") == (0, 1)
    kafka.clock.advance(days=8)
    assert Reader(kafka).committed_offset("g") == (0, -1)


def test_a_data_directory_is_emptied_and_keeps_its_topics(tmp_path: Path) -> None:
    for value in ("first", "second"):
        with MockKafka(data=tmp_path, topics={"orders": 1}) as kafka:
            before = topic_ids(kafka)["orders"]
            assert kafka.records("orders") == []
            producer, wire = RawProducer(kafka), client(kafka)
            producer.send(0)
            wire.request(tagged(value, 2), 9)
            kafka.reset(soft=True)
            assert producer.send(1).error_code == 0
            kafka.reset(soft=True)
    with MockKafka(data=tmp_path) as kafka:
        assert kafka.records("orders") == []
        assert kafka.partition("orders").log_end_offset == 8
        assert topic_ids(kafka)["orders"] == before


def test_offsets_of_an_open_transaction_do_not_come_back(tmp_path: Path) -> None:
    with MockKafka(data=tmp_path, topics={"orders": 1}) as kafka:
        producer = started(kafka, version=NEW)
        client(kafka).request(find_coordinator("g"), 4)
        client(kafka).request(tagged("old", 3), 9)
        client(kafka).request(offset_commit("h", 2), 8)
        for group in ("g", "h"):
            assert producer.send_offsets(group, 1) == 0
        kafka.reset(soft=True)
        assert producer.end(commit=True) == 0
    with MockKafka(data=tmp_path) as kafka:
        assert [Reader(kafka).committed_offset(group) for group in ("g", "h")] == [(0, -1), (0, 3)]


def test_a_group_has_its_offsets_also_if_the_disk_is_full_after_one_batch(kafka: MockKafka) -> None:
    """A soft reset deletes the offset of the open transaction, and moves the committed offset, in one batch."""
    producer = started(kafka, version=NEW)
    client(kafka).request(find_coordinator("h"), 4)
    client(kafka).request(tagged("old", 3), 9)
    client(kafka).request(offset_commit("h", 2), 8)
    assert producer.send_offsets("h", 1) == 0
    before = batches_of(kafka, "__consumer_offsets")
    kafka.reset(soft=True)
    assert batches_of(kafka, "__consumer_offsets") == before + 1
    assert Reader(kafka).committed_offset("h") == (0, 3)


def test_memory_is_given_back(kafka: MockKafka) -> None:
    for _ in range(3):
        client(kafka).request(tagged("x", 100), 9)
        kafka.reset(soft=True)
    assert kafka._call(lambda engine: sum(each.log.size for each in engine.cluster.partitions() if each.topic == "orders")) == 0


def topic_ids(kafka: MockKafka) -> dict[str, bytes]:
    return kafka._call(lambda engine: {name: topic.topic_id for name, topic in engine.cluster.topics.items()})


def batches_of(kafka: MockKafka, topic: str) -> int:
    """Returns how many batches the topic has."""
    return kafka._call(lambda engine: sum(len(list(each.log.batches(0))) for each in engine.cluster.topics[topic].partitions))


def ask(kafka: MockKafka, api: str, version: int, **fields: Any) -> Any:
    return client(kafka).request(plain(api, **fields), version)


def values(response: Any) -> list[bytes | None]:
    return [record.value for each in iter_batches(response.records) for record in iter_records(each)]


# Each kind of fault

ACL = "allow User:alice WRITE TOPIC orders"
RIGHTS = ["allow User:alice READ TOPIC orders", "allow User:alice READ GROUP *", "allow User:alice WRITE TRANSACTIONAL_ID *"]
BROKERS: dict[str, Any] = {
    "brokers": 2,
    "topics": {"orders": {"partitions": 1, "replication_factor": 2}},
    "configs": {"offsets.topic.replication.factor": 2, "transaction.state.log.replication.factor": 2},
    "users": {"alice": "secret"},
    "acls": [ACL, *RIGHTS],
    "profile": "kafka-4.3",
    "clock": "frozen",
}
HOUR = 3_600_000
WORDS: dict[str, dict[str, Any]] = {
    "advance": {"ms": HOUR},
    "answer": {"answerer": lambda facts, request: ProduceResponse()},
    "bandwidth": {"rate": 1},
    "close": {"ms": HOUR},
    "cut": {"bytes": 9},
    "delay": {"ms": HOUR},
    "error": {"code": "CORRUPT_MESSAGE"},
    "expire_transactional_id": {"transactional_id": "h"},
    "fence": {"transactional_id": "h"},
    "lose_ack": {"then": "silence"},
    "lose_request": {"then": "silence"},
    "reorder": {"others": 1000},
    "slice": {"bytes": 1, "ms": HOUR},
    "slow_reassignment": {"ms": HOUR},
    "slow_write": {"ms": HOUR},
    "throttle": {"ms": HOUR},
    "truncate": {"offset": 0, "topic": "orders", "partition": 0},
    "upgrade": {"to": "kafka-4.4"},
    "withdraw_acl": {"acl": ACL},
}
"""The words that a kind of fault needs, and words with which its effect lasts."""
OF_GROUPS = {"expire_member", "lose_coordinator", "move_coordinator"}
OF_TRANSACTIONS = {"expire_transactional_id", "fence"}
OF_HANDSHAKES = {"expire_certificate", "stall_handshake"}
END_CONNECTIONS = {"crash_after_write", "cut", "disconnect", "lose_ack", "lose_request", "reset", "restart", "upgrade"}
"""After these faults, clients have to connect again."""


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_nothing_of_a_fault_is_left(kind: str) -> None:
    secured = "sasl_ssl" if kind in OF_HANDSHAKES else "sasl_plaintext"
    with MockKafka(security=secured, **BROKERS) as kafka, ExitStack() as stack:
        client = stack.enter_context(closing(logged_in(kafka)))
        expected = results(client)
        producer_id = client.request(init_producer_id(None), 4).producer_id
        client.request(find_coordinator("h", kind=1), 4)  # creates the topic of the transactions
        assert client.request(init_producer_id("h"), 4).error_code == 0
        client.request(produce_request("orders", batch(0, pid=producer_id, epoch=0)), 9)
        requests = {
            **dict.fromkeys(OF_GROUPS, (joined(client), 1)),
            **dict.fromkeys(OF_TRANSACTIONS, (init_producer_id("h"), 4)),
            "any": (produce_request("orders", batch(1, pid=producer_id, epoch=0)), 9),
        }
        rule = kafka.faults.add(KINDS[kind](**WORDS.get(kind, {})))
        if kind in OF_HANDSHAKES:
            begun = stack.enter_context(greeted(kafka))
        elif kind == "refuse":
            stack.enter_context(socket.create_connection(address_of(kafka.bootstrap_servers)))
        else:
            client.send(*requests[kind if kind in requests else "any"])
        kafka.wait_until(lambda: rule.fired > 0)
        kafka.reset(soft=True)
        if kind == "stall_handshake":
            assert begun.recv(1) == b"\x16", "the broker continues the TLS handshake"
        assert is_served(client, expected) == (kind not in END_CONNECTIONS)
        assert is_served(stack.enter_context(closing(logged_in(kafka))), expected)


@pytest.mark.parametrize("api", ["SaslHandshake", "SaslAuthenticate"])
def test_a_login_that_a_fault_stalls_goes_on(api: str) -> None:
    steps = [plain("SaslHandshake", mechanism="PLAIN"), plain("SaslAuthenticate", auth_bytes=b"\0alice\0secret")]
    with MockKafka(security="sasl_plaintext", **BROKERS) as kafka:
        rule = kafka.faults.add(faults.delay(HOUR, api=api))
        with closing(Connection(address_of(kafka.bootstrap_servers))) as client:
            for step, version in zip(steps, (1, 2), strict=True):
                client.send(step, version)
                if type(step).__name__.startswith(api):
                    kafka.wait_until(lambda: rule.fired == 1)
                    kafka.reset(soft=True)
                assert client.response().error_code == 0


def logged_in(kafka: MockKafka) -> Connection:
    secured = kafka.client_settings("kafka-python")["security_protocol"] == "SASL_SSL"
    client = Connection(address_of(kafka.bootstrap_servers), tls=context(kafka) if secured else None, limits=Limits(seconds=5))
    assert log_in(client).error_code == 0
    return client


def joined(client: Connection) -> Any:
    """Joins the group `h`, whose coordinator is the client's broker. Returns the member's next heartbeat."""
    member = {"group_id": "h", "member_id": "m", "rebalance_timeout_ms": 5000, "subscribed_topic_names": ["orders"]}
    epoch = client.request(plain("ConsumerGroupHeartbeat", **member, member_epoch=0, topic_partitions=[]), 1).member_epoch
    return plain("ConsumerGroupHeartbeat", **member, member_epoch=epoch, topic_partitions=[])


def is_served(client: Connection, expected: list[Any]) -> bool:
    """Checks that a client gets the expected results, after the response to an earlier request. Returns False if the broker has
    closed the connection."""
    try:
        while client.awaited:
            client.frame()
            client.awaited.popleft()
        assert results(client) == expected
    except ConnectionClosed:
        return False
    return True


def results(client: Connection) -> list[Any]:
    """Returns what a client gets from the broker."""
    (topic,) = client.request(plain("Metadata", topics=[{"name": "orders"}]), 12).topics
    partition = sole(topic.partitions)
    stored = only(client.request(produce_request("orders", batch()), 9))
    read = only(client.request(fetch(stored.base_offset), 12))
    found = client.request(find_coordinator("g", "h"), 4)
    return [
        (topic.error_code, partition.leader_id, partition.replica_nodes, partition.isr_nodes, partition.offline_replicas),
        (stored.error_code, read.error_code, read.high_watermark - stored.base_offset, values(read)),
        [(each.error_code, each.node_id) for each in found.coordinators],
        found.throttle_time_ms,
    ]


def test_a_failed_write_of_the_metadata_moves_with_the_clock() -> None:
    """Otherwise the next attempt would be made at a time that the clock has not reached yet."""
    decisions, tried = Decisions(Timers(), lambda: (1, 1, 1)), list[int]()

    def fail(now: int, _: object) -> None:
        tried.append(now)
        raise OSError

    decisions.write_with(fail)
    decisions.write_down(5_000)
    decisions.move_time(-2_000)
    decisions.insist()
    assert tried == [5_000, 3_000]
