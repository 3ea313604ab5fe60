"""Faults of storage and of state: writes that fail, writes that are slow, writes that crash the broker, and state that a
cluster loses.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import kafka as kafka_python
import pytest

from dialogue import ANY_RESPONSE, CLOSED, INIT_PRODUCER_ID, Dialogue, accepted, answered, each, refused, seq, tagged
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from requesting import add_partitions, delete_records, fetch, find_coordinator, init_producer_id, list_offsets
from responses import only, sole
from wirebroker import faults
from wirebroker.client.wire import ConnectionClosed
from wirebroker.mock import MockKafka
from wirebroker.trace.rows import LeaderRow
from wirekit import RawProducer, batch, client

pytestmark = pytest.mark.mock_kafka(topics={"orders": 2, "other": 1})
STORAGE_ERROR, OUT_OF_ORDER, FENCED, NOT_AVAILABLE, NOT_COORDINATOR = 56, 45, 90, 15, 16


def values(kafka: MockKafka, topic: str = "orders", partition: int | None = None) -> list[bytes | None]:
    return [record.value for record in kafka.records(topic, partition)]


# Writes


def test_a_write_that_fails_changes_neither_log_nor_state(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.fail_write(topic="orders", nth=2))
    dialogue = Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(1) << refused(STORAGE_ERROR)
    dialogue >> seq(2) << refused(OUT_OF_ORDER) >> seq(1) << accepted(at=1) >> seq(2) << accepted(at=2)
    assert values(mock_kafka) == [b"v0", b"v1", b"v2"]
    assert [row.rule for row in mock_kafka.trace.produce() if row.code] == ["write_failed", "gap"]


def test_a_duplicate_is_not_written_and_so_does_not_fail(mock_kafka: MockKafka) -> None:
    failing = mock_kafka.faults.add(faults.fail_write(nth=2))
    Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(0) << accepted(at=0) >> seq(1) << accepted(at=1)
    assert (failing.seen, failing.fired, mock_kafka.trace.faults()) == (3, 0, [])


def test_a_slow_write_holds_back_the_partition_and_no_other(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.slow_write(60_000, topic="orders", partition=0, nth=1))
    slow = Dialogue(mock_kafka) >> tagged("slow")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    later = Dialogue(mock_kafka) >> tagged("later")
    Dialogue(mock_kafka) >> tagged("aside", partition=1) << accepted(at=0)
    assert values(mock_kafka, "orders", 0) == []
    mock_kafka.clock.advance(minutes=1)
    slow << accepted(at=0)
    later << accepted(at=1)
    assert values(mock_kafka, "orders", 0) == [b"slow0", b"later0"]


def test_only_the_slow_partition_of_a_request_holds_back_others(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.slow_write(60_000, topic="orders", partition=0, nth=1))
    parts = [PartitionProduceData(index=index, records=batch(tag=f"p{index}-")) for index in range(2)]
    both = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="orders", partition_data=parts)])
    slow = Dialogue(mock_kafka) >> both
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    Dialogue(mock_kafka) >> tagged("aside", partition=1) << accepted(at=0)
    mock_kafka.clock.advance(minutes=1)
    slow << each(base_offset=[0, 1])


def test_slow_writes_add_up(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.slow_write(60_000, times=2))
    first, second = Dialogue(mock_kafka), Dialogue(mock_kafka)
    for number, dialogue in enumerate((first, second), 1):
        dialogue >> tagged(f"{number}-")
        mock_kafka.wait_until(lambda number=number: len(mock_kafka.trace.faults()) == number)
    mock_kafka.clock.advance(minutes=1)
    assert values(mock_kafka) == [b"1-0"]
    mock_kafka.clock.advance(minutes=1)
    first << accepted(at=0)
    second << accepted(at=1)


def test_a_full_disk_takes_everything_offline_until_there_is_room(mock_kafka: MockKafka) -> None:
    full = mock_kafka.faults.add(faults.disk_full(nth=2))
    first, second = Dialogue(mock_kafka), Dialogue(mock_kafka)
    first >> seq(0) << accepted(at=0) >> seq(1) << refused(STORAGE_ERROR)
    second >> seq(0, topic="other") << refused(STORAGE_ERROR)  # the whole log directory is offline
    assert ask_offsets(mock_kafka) == STORAGE_ERROR
    assert fetch_error(mock_kafka) == STORAGE_ERROR
    with pytest.raises(ValueError, match="KAFKA_STORAGE_ERROR"):
        mock_kafka.produce("orders", value=b"v")
    mock_kafka.faults.remove(full)
    first >> seq(1) << accepted(at=1)
    second >> seq(0, topic="other") << accepted(at=0)
    assert fetch_error(mock_kafka) == 0
    assert values(mock_kafka) == [b"v0", b"v1"]


def test_a_full_disk_of_one_topic(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.disk_full(topic="orders", partition=0))
    dialogue = Dialogue(mock_kafka) >> seq(0) << refused(STORAGE_ERROR)
    dialogue >> seq(0, partition=1) << accepted(at=0) >> seq(0, topic="other") << accepted(at=0)


def ask_offsets(kafka: MockKafka) -> int:
    found = client(kafka).request(list_offsets(-1), 6)
    return int(only(found).error_code)


def fetch_error(kafka: MockKafka) -> int:
    return int(only(client(kafka).request(fetch(), 12)).error_code)


def test_b5_a_crash_after_the_write_keeps_log_and_state_together(mock_kafka: MockKafka) -> None:
    crash = mock_kafka.faults.add(faults.crash_after_write(topic="orders", nth=2))
    bystander = Dialogue(mock_kafka) >> INIT_PRODUCER_ID << answered(error_code=0)
    dialogue = Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(1) << CLOSED
    bystander << CLOSED
    assert values(mock_kafka) == [b"v0", b"v1"]
    dialogue >> seq(1) << accepted(at=1) >> seq(2) << accepted(at=2)
    assert [row.verdict for row in mock_kafka.trace.produce("orders")] == ["accepted", "accepted", "duplicate", "accepted"]
    crash.assert_fired(1)


REPLICATED = {"topics": {"orders": 1}, "brokers": 3, "configs": {"default.replication.factor": 3, "min.insync.replicas": 2}}


@pytest.mark.mock_kafka(**REPLICATED, trace="changes")
def test_b5_the_leader_dies_after_the_append_and_before_the_acknowledgement(mock_kafka: MockKafka) -> None:
    crash = mock_kafka.faults.add(faults.crash_after_write(topic="orders", nth=2))
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=mock_kafka.bootstrap_servers, retry_backoff_ms=10, reconnect_backoff_ms=10
    )
    offsets = [producer.send("orders", b"%d" % i).get(10).offset for i in range(4)]
    producer.close()
    crash.assert_fired(1)
    assert offsets == [0, 1, 2, 3]
    assert values(mock_kafka) == [b"0", b"1", b"2", b"3"]
    nodes = {row.node for row in mock_kafka.trace.produce("orders")}
    assert len(nodes) == 2, "the retry was sent to a new leader, which has the producer's state"
    assert "duplicate" in [row.verdict for row in mock_kafka.trace.produce("orders")]
    assert [row.leader for row in mock_kafka.trace.events("leader") if isinstance(row, LeaderRow)] != []


@pytest.mark.mock_kafka(**REPLICATED)
def test_a_full_disk_concerns_one_broker(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.disk_full(topic="orders"))
    producer = RawProducer(mock_kafka)
    assert producer.send(0).error_code == STORAGE_ERROR
    topic = sole(producer.wire.request(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9).topics)
    assert sole(topic.partitions).offline_replicas == [1]
    mock_kafka.faults.clear()
    mock_kafka.faults.add(faults.disk_full(topic="orders", node=1))
    assert producer.send(0).error_code == STORAGE_ERROR
    mock_kafka.move_leader("orders", 0, to=2)
    assert producer.send(0).error_code == STORAGE_ERROR, "a broker with a full disk does not return the new leader"
    producer.wire = client(mock_kafka, node=1)
    assert producer.send(0).base_offset == 0


@pytest.mark.mock_kafka(**REPLICATED)
def test_the_disk_of_a_new_leader_is_full_too(mock_kafka: MockKafka) -> None:
    full = mock_kafka.faults.add(faults.disk_full(topic="orders"))
    producer = RawProducer(mock_kafka)
    for node in (1, 2):
        mock_kafka.move_leader("orders", 0, to=node)
        producer.wire = client(mock_kafka, node=node - 1)
        assert producer.send(0).error_code == STORAGE_ERROR
        full.assert_fired(node)
    topic = sole(producer.wire.request(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9).topics)
    assert sole(topic.partitions).offline_replicas == [1, 2]
    mock_kafka.faults.remove(full)
    assert producer.send(0).base_offset == 0


# Forgetting and fencing


def test_c6_an_expired_producer_stores_a_late_duplicate_again(mock_kafka: MockKafka) -> None:
    dialogue = Dialogue(mock_kafka) >> seq(0) << accepted(at=0)
    assert mock_kafka.expire_producer(dialogue.producer_id) == 1
    assert mock_kafka.expire_producer(dialogue.producer_id) == 0
    dialogue >> seq(0) << accepted(at=1)
    assert values(mock_kafka) == [b"v0", b"v0"]


def test_c6_as_a_rule_it_happens_before_the_matched_batch(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.expire_producer(api="Produce", topic="orders", partition=0, nth=2))
    Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(0) << accepted(at=1) >> seq(0) << accepted(at=1)


def init(wire: Any, transactional_id: str = "till") -> Any:
    return wire.request(init_producer_id(transactional_id), 4)


def begin(wire: Any, producer: Any) -> int:
    request = add_partitions("till", (producer.producer_id, producer.producer_epoch))
    response = wire.request(request, 3)
    return int(only(response).partition_error_code)


@pytest.fixture
def coordinated(mock_kafka: MockKafka) -> Any:
    wire = client(mock_kafka)
    wire.request(find_coordinator("till", kind=1), 4)
    return wire


def test_c1_c4_a_fenced_producer_gets_an_error_and_its_transaction_is_aborted(mock_kafka: MockKafka, coordinated: Any) -> None:
    producer = init(coordinated)
    assert begin(coordinated, producer) == 0
    assert mock_kafka.fence("till") > producer.producer_epoch
    assert begin(coordinated, producer) == FENCED
    with pytest.raises(ValueError, match="there is no transactional id 'none'"):
        mock_kafka.fence("none")


def test_c1_as_a_rule_it_fences_at_the_exact_request(mock_kafka: MockKafka, coordinated: Any) -> None:
    mock_kafka.faults.add(faults.fence("till", api="AddPartitionsToTxn", nth=2))
    producer = init(coordinated)
    assert [begin(coordinated, producer) for _ in range(3)] == [0, FENCED, FENCED]


def test_c5_an_expired_transactional_id_has_a_new_producer(mock_kafka: MockKafka, coordinated: Any) -> None:
    first = init(coordinated)
    begin(coordinated, first)
    with pytest.raises(ValueError, match="in state Ongoing, and Kafka forgets no id in that state"):
        mock_kafka.expire_transactional_id("till")
    mock_kafka.fence("till")
    mock_kafka.expire_transactional_id("till")
    again = init(coordinated)
    assert (again.producer_epoch, again.producer_id > first.producer_id) == (0, True)
    mock_kafka.faults.add(faults.expire_transactional_id("till", api="InitProducerId", times=1))
    assert init(coordinated).producer_id > again.producer_id


def test_a_truncated_log_loses_its_end_and_the_state_with_it(mock_kafka: MockKafka) -> None:
    dialogue = Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(1) << accepted(at=1) >> seq(2) << accepted(at=2)
    Dialogue(mock_kafka) >> seq(0) << accepted(at=3)
    assert mock_kafka.truncate("orders", 0, 2) == 2
    assert list(mock_kafka.producers("orders", 0)) == [dialogue.producer_id]
    dialogue >> seq(3) << refused(OUT_OF_ORDER) >> seq(1) << accepted(at=1) >> seq(2) << accepted(at=2)
    assert values(mock_kafka) == [b"v0", b"v1", b"v2"]
    with pytest.raises(ValueError, match="orders-0 has offsets 0 to 3; it cannot be truncated to 4"):
        mock_kafka.truncate("orders", 0, 4)
    mock_kafka.faults.add(faults.truncate(1, topic="orders", partition=0, api="Produce", nth=1))
    dialogue >> seq(3) << refused(OUT_OF_ORDER)
    assert values(mock_kafka) == [b"v0"]


def test_truncation_keeps_the_state_of_producers_before_the_cut(mock_kafka: MockKafka) -> None:
    """A producer's state is kept even if its records are no longer in the log."""
    producer, other = RawProducer(mock_kafka), RawProducer(mock_kafka)
    for sequence in range(2):
        producer.send(sequence)
    other.send(0)
    producer.wire.request(delete_records(2), 2)
    before = mock_kafka.producers("orders", 0)[producer.pid]
    mock_kafka.truncate("orders", 0, 2)
    assert mock_kafka.producers("orders", 0) == {producer.pid: before}
    assert producer.send(1).base_offset == 1, "the batch is still recognised as a duplicate"


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_log_that_starts_within_the_truncated_batch_continues_at_its_start(
    mock_kafka_factory: Callable[..., MockKafka], tmp_path: Path, on_disk: bool
) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, data=tmp_path / "data" if on_disk else None)
    producer = RawProducer(kafka)
    producer.send(0, 3)
    producer.wire.request(delete_records(2), 2)
    assert kafka.truncate("orders", 0, 3) == 2
    assert RawProducer(kafka).send(0).base_offset == 2
    kafka.restart("clean")
    state = kafka.partition("orders")
    assert (state.log_start_offset, state.log_end_offset) == (2, 3)


def test_a_consumer_beyond_the_new_end_is_out_of_range(mock_kafka: MockKafka) -> None:
    for _ in range(3):
        mock_kafka.produce("orders", value=b"v")
    dialogue = Dialogue(mock_kafka) >> fetch(3, wait_ms=60_000)
    mock_kafka.wait_until(lambda: mock_kafka._call(lambda e: bool(e.cluster.topics["orders"].partitions[0].waiting)))
    mock_kafka.truncate("orders", 0, 1)
    dialogue << refused(1)


def test_clients_look_for_a_lost_coordinator_again(mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_coordinator(group="team", nth=[1, 3]))
    find = find_coordinator("team")
    dialogue = Dialogue(mock_kafka) >> find << refused(NOT_AVAILABLE) >> find << answered(error_code=0)
    offsets = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="team", topics=None)], require_stable=False)
    for code in (NOT_COORDINATOR, 0):
        dialogue >> offsets << ANY_RESPONSE
        assert sole(dialogue.last.groups).error_code == code
    assert (lost.seen, lost.fired) == (4, 2)
    of_anybody = mock_kafka.faults.add(faults.lose_coordinator())
    assert RawProducer(mock_kafka).pid >= 0
    assert of_anybody.seen == 0, "without a transactional id there is no coordinator"


def test_a_restart_at_the_exact_request(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.restart(mode="kill", api="Produce", nth=2))
    producer = RawProducer(mock_kafka)
    producer.send(0)
    with pytest.raises(ConnectionClosed):
        producer.send(1)
    assert values(mock_kafka) == [b"v0"]
    assert producer.send(1).base_offset == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: faults.fail_write(api="Fetch"), "fail_write does not apply to Fetch, only to Produce"),
        (lambda: faults.slow_write(0), "ms must be a whole number of at least 1, not 0"),
        (lambda: faults.lose_coordinator(api="Fetch"), "lose_coordinator does not apply to Fetch, only to FindCoordinator"),
        (lambda: faults.truncate(-1, topic="a", partition=0), "offset must be a whole number of at least 0, not -1"),
        (lambda: faults.restart(mode="gently"), "mode must be 'clean' or 'kill', not 'gently'"),
    ],
)
def test_a_rule_that_can_never_match_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Real clients


def test_c1_aiokafka_is_fenced(mock_kafka: MockKafka) -> None:
    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=mock_kafka.bootstrap_servers, transactional_id="till", retry_backoff_ms=10
        )
        async with producer:
            async with producer.transaction():
                await producer.send_and_wait("orders", b"kept", partition=0)
            mock_kafka.fence("till")
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"lost", partition=0)

    def outcome() -> str:
        try:
            asyncio.run(send())
        except aiokafka.errors.KafkaError as refused:
            return type(refused).__name__
        return "none"

    assert "Fenced" in outcome()
    gc.collect()  # aiokafka leaves a future; when the collector frees it, it warns, and a later test must not see this warning
    assert [record.value for record in mock_kafka.records("orders") if not record.control] == [b"kept"]
