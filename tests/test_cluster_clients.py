"""kafka-python, aiokafka and confluent-kafka each use a cluster whose brokers fail (B5, B6, D2, D3)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from wirebroker import faults
from wirebroker.mock import MockKafka

Send = Callable[[bytes], "Future[int]"]
"""Sends a value to partition 0 of "orders". The future has the acknowledged offset, or the client's error."""
Producing = Callable[..., AbstractContextManager[Send]]
SOON = 15


@contextmanager
def kafka_python(address: str, *, idempotent: bool = True, acks: str | int = "all") -> Iterator[Send]:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address, enable_idempotence=idempotent, acks=acks, retries=100, retry_backoff_ms=20,
        reconnect_backoff_ms=20, request_timeout_ms=10_000,
    )  # fmt: skip

    def send(value: bytes) -> Future[int]:
        told: Future[int] = Future()
        future = producer.send("orders", value, partition=0)
        future.add_callback(lambda metadata: told.set_result(metadata.offset))
        future.add_errback(told.set_exception)
        return told

    try:
        yield send
    finally:
        producer.close(5)


@contextmanager
def confluent(address: str, *, idempotent: bool = True, acks: str | int = "all") -> Iterator[Send]:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address, "enable.idempotence": idempotent, "acks": acks, "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0,
        }
    )  # fmt: skip
    ended = threading.Event()
    polling = threading.Thread(target=lambda: [producer.poll(0.05) for _ in iter(ended.is_set, True)])
    polling.start()

    def send(value: bytes) -> Future[int]:
        told: Future[int] = Future()

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                told.set_result(message.offset())
            else:
                told.set_exception(confluent_kafka.KafkaException(error))

        producer.produce("orders", value, partition=0, on_delivery=delivered)
        return told

    try:
        yield send
    finally:
        ended.set()
        polling.join()
        producer.flush(5)


@contextmanager
def aio(address: str, *, idempotent: bool = True, acks: str | int = "all") -> Iterator[Send]:
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever)
    running.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(SOON)

    async def made() -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=idempotent, acks=acks, retry_backoff_ms=20, request_timeout_ms=10_000
        )
        await producer.start()
        return producer

    producer = run(made())

    async def offset(value: bytes) -> int:
        return int((await producer.send_and_wait("orders", value, partition=0)).offset)

    try:
        yield lambda value: asyncio.run_coroutine_threadsafe(offset(value), loop)
        run(producer.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        running.join()


CLIENTS = {"kafka-python": kafka_python, "aiokafka": aio, "confluent-kafka": confluent}
each_client = pytest.mark.parametrize("producing", CLIENTS.values(), ids=CLIENTS)


@pytest.fixture
def cluster(mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    """Three brokers that all have a replica of "orders". Broker 1 is its leader."""
    return mock_kafka_factory(brokers=3, topics=["orders"], configs={"default.replication.factor": 3})


def values(broker: MockKafka) -> list[bytes | None]:
    return [record.value for record in broker.records("orders")]


def stored(broker: MockKafka, count: int) -> None:
    broker.wait_until(lambda: broker.partition("orders").log_end_offset == count, SOON)


@each_client
def test_b5_the_request_never_arrives(producing: Producing, cluster: MockKafka) -> None:
    with producing(cluster.bootstrap_servers) as send:
        assert send(b"first").result(SOON) == 0
        lost = cluster.faults.add(faults.lose_request(api="Produce", nth=1))
        assert send(b"second").result(SOON) == 1
        lost.assert_fired()
    assert values(cluster) == [b"first", b"second"]
    assert [row.verdict for row in cluster.trace.produce()] == ["accepted", "accepted"]


@each_client
def test_b5_the_acknowledgement_is_lost(producing: Producing, cluster: MockKafka) -> None:
    with producing(cluster.bootstrap_servers) as send:
        assert send(b"first").result(SOON) == 0
        lost = cluster.faults.add(faults.lose_ack(api="Produce", nth=1))
        assert send(b"second").result(SOON) == 1
        lost.assert_fired()
    assert values(cluster) == [b"first", b"second"]
    assert [row.verdict for row in cluster.trace.produce()] == ["accepted", "accepted", "duplicate"]


@each_client
def test_b5_the_leader_dies_after_the_append_and_before_the_acknowledgement(producing: Producing, cluster: MockKafka) -> None:
    with producing(cluster.bootstrap_servers) as send:
        assert send(b"first").result(SOON) == 0
        cluster.freeze_replica("orders", 0, 3)  # broker 3 lags, so the next record is not acknowledged although broker 2 has it
        told = send(b"second")
        stored(cluster, 2)
        cluster.kill_broker(1)
        cluster.thaw_replica("orders", 0, 3)
        assert told.result(SOON) == 1
    assert values(cluster) == [b"first", b"second"]
    assert [(row.node, row.verdict) for row in cluster.trace.produce()] == [(1, "accepted"), (1, "accepted"), (2, "duplicate")]


@each_client
def test_b6_acks_1_loses_an_acknowledged_record_with_its_leader(producing: Producing, cluster: MockKafka) -> None:
    with producing(cluster.bootstrap_servers, idempotent=False, acks=1) as send:
        assert send(b"replicated").result(SOON) == 0
        for node in (2, 3):
            cluster.freeze_replica("orders", 0, node)
        assert send(b"lost").result(SOON) == 1
        cluster.kill_broker(1)
        assert send(b"in its place").result(SOON) == 1
    assert values(cluster) == [b"replicated", b"in its place"]


@each_client
def test_b6_acks_all_survives(producing: Producing, cluster: MockKafka) -> None:
    with producing(cluster.bootstrap_servers) as send:
        assert send(b"first").result(SOON) == 0
        for node in (2, 3):
            cluster.freeze_replica("orders", 0, node)
        told = send(b"second")
        stored(cluster, 2)
        assert not told.done()  # not acknowledged, because only the leader has the record
        for node in (2, 3):
            cluster.thaw_replica("orders", 0, node)
        assert told.result(SOON) == 1
        cluster.kill_broker(1)
        assert values(cluster) == [b"first", b"second"]
        assert send(b"third").result(SOON) == 2
    assert values(cluster) == [b"first", b"second", b"third"]


@each_client
def test_d2_sequences_go_on_over_every_failover(producing: Producing, cluster: MockKafka) -> None:
    with producing(cluster.bootstrap_servers) as send:
        for round_, dies in enumerate((1, 2)):
            assert [send(b"%d" % i).result(SOON) for i in range(3)] == [3 * round_ + i for i in range(3)]
            cluster.kill_broker(dies)
        cluster.start_broker(1)
        cluster.move_leader("orders", to=1)
        assert send(b"last").result(SOON) == 6
    rows = cluster.records("orders")
    assert [(row.sequence, row.producer_epoch) for row in rows] == [(i, 0) for i in range(7)]
    assert len({row.producer_id for row in rows}) == 1
    assert cluster.partition("orders").in_sync == [1, 3]


@each_client
def test_d3_not_enough_replicas_is_tried_again_until_there_are(
    producing: Producing, mock_kafka_factory: Callable[..., MockKafka]
) -> None:
    cluster = mock_kafka_factory(
        brokers=2, topics=["orders"], configs={"default.replication.factor": 2, "min.insync.replicas": 2}
    )
    with producing(cluster.bootstrap_servers) as send:
        assert send(b"first").result(SOON) == 0
        cluster.kill_broker(2)
        refused = cluster.faults.add(faults.delay(1, api="Produce"))  # this rule counts the client's attempts
        told = send(b"second")
        cluster.wait_until(lambda: refused.fired >= 2, SOON)
        assert not told.done()
        cluster.start_broker(2)
        assert told.result(SOON) == 1
    assert values(cluster) == [b"first", b"second"]


# The coordinators


def consume_kafka_python(address: str, group: str, stop: threading.Event, got: list[bytes]) -> None:
    """Reads the topic's metadata before the client joins, so that new metadata causes no rebalance. If SyncGroup fails or is
    slow, kafka-python 3.0.12 forgets such a rebalance.
    """
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        heartbeat_interval_ms=200, retry_backoff_ms=20, reconnect_backoff_ms=20,
    )  # fmt: skip
    consumer.subscribe(["orders"])
    consumer.partitions_for_topic("orders")  # otherwise the client finds the topic only after its join, and joins again
    while not stop.is_set():
        found = [record.value for records in consumer.poll(timeout_ms=1_000).values() for record in records]
        got += found
        while found:
            try:
                consumer.commit()
                break
            except kafka.errors.KafkaConnectionError:  # the client is still looking for the coordinator
                continue
            except kafka.errors.RebalanceInProgressError:  # the next polls return the records again
                break
    consumer.close()


def consume_confluent(address: str, group: str, stop: threading.Event, got: list[bytes]) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0,
            "heartbeat.interval.ms": 200, "coordinator.query.interval.ms": 200,
        }
    )  # fmt: skip
    consumer.subscribe(["orders"])
    while not stop.is_set():
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            commit_until_done(consumer)
            got.append(message.value() or b"")
    consumer.close()


def commit_until_done(consumer: confluent_kafka.Consumer) -> None:
    """Repeats a commit until it succeeds. librdkafka's commit fails while the client is looking for the coordinator."""
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        try:
            consumer.commit(asynchronous=False)
            return
        except confluent_kafka.KafkaException:
            consumer.poll(0.02)


def consume_aiokafka(address: str, group: str, stop: threading.Event, got: list[bytes]) -> None:
    async def work() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=address, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, heartbeat_interval_ms=200, retry_backoff_ms=20,
        )  # fmt: skip
        await consumer.start()
        while not stop.is_set():
            found = [r.value for records in (await consumer.getmany(timeout_ms=50)).values() for r in records]
            got.extend(found)
            if found:
                with suppress(aiokafka.errors.CommitFailedError):  # after a rebalance, the consumer gets the records again
                    await consumer.commit()
        await consumer.stop()

    asyncio.run(work())


CONSUMERS = {"kafka-python": consume_kafka_python, "aiokafka": consume_aiokafka, "confluent-kafka": consume_confluent}


@pytest.mark.parametrize("consume", CONSUMERS.values(), ids=CONSUMERS)
def test_d3_a_group_goes_on_when_its_coordinator_dies(consume: Any, cluster: MockKafka) -> None:
    stop, got = threading.Event(), list[bytes]()
    cluster.produce("orders", value=b"before")
    running = threading.Thread(target=consume, args=(cluster.bootstrap_servers, "readers", stop, got))
    running.start()
    try:
        cluster.wait_until(lambda: committed(cluster) == 1, SOON)
        coordinator = cluster._call(lambda engine: engine.cluster.coordinator("group", "readers"))
        assert coordinator is not None
        cluster.kill_broker(coordinator)
        cluster.produce("orders", value=b"after")
        cluster.wait_until(lambda: committed(cluster) == 2, SOON)
    finally:
        stop.set()
        running.join()
    assert list(dict.fromkeys(got)) == [b"before", b"after"]  # a record may come twice (at least once)


def committed(cluster: MockKafka) -> int:
    offsets = cluster._call(lambda engine: engine.groups.offsets.of("readers").get(("orders", 0)))
    return -1 if offsets is None else offsets.offset
