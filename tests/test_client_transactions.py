"""Transactions of unmodified clients over TCP: commit, abort, fencing, and offsets that a transaction commits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from wirebroker.mock import MockKafka

Work = Callable[[str], None]


@pytest.fixture(params=[1, 3], ids=["one_broker", "three_brokers"])
def broker(request: pytest.FixtureRequest, mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(brokers=request.param, topics={"orders": 2, "results": 1})


# Each client commits "kept", aborts "dropped" and commits "kept too", each on both partitions. Then a second producer with the
# same transactional id commits "of the heir". After that the first producer must fail to send "of the zombie".


def kafka_python(address: str) -> None:
    def transact(producer: Any, value: bytes, commit: bool = True) -> None:
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send("orders", value, partition=partition)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()

    first = kafka.KafkaProducer(bootstrap_servers=address, transactional_id="till")
    first.init_transactions()
    transact(first, b"kept")
    transact(first, b"dropped", commit=False)
    transact(first, b"kept too")
    second = kafka.KafkaProducer(bootstrap_servers=address, transactional_id="till")
    second.init_transactions()
    transact(second, b"of the heir")
    with pytest.raises(kafka.errors.KafkaError):
        transact(first, b"of the zombie")
    with contextlib.suppress(kafka.errors.KafkaError):
        first.close(timeout=1)
    second.close()


def aio(address: str) -> None:
    async def transact(producer: Any, value: bytes, commit: bool = True) -> None:
        await producer.begin_transaction()
        for partition in (0, 1):
            await producer.send_and_wait("orders", value, partition=partition)
        await (producer.commit_transaction() if commit else producer.abort_transaction())

    async def work() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, transactional_id="till") as first:
            await transact(first, b"kept")
            await transact(first, b"dropped", commit=False)
            await transact(first, b"kept too")
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, transactional_id="till") as second:
                await transact(second, b"of the heir")
                with pytest.raises(aiokafka.errors.KafkaError):
                    await transact(first, b"of the zombie")

    asyncio.run(work())


def confluent(address: str) -> None:
    def transact(producer: Any, value: bytes, commit: bool = True) -> None:
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("orders", value, partition=partition)
        producer.flush(10)
        producer.commit_transaction(10) if commit else producer.abort_transaction(10)

    settings = {"bootstrap.servers": address, "transactional.id": "till", "log_level": 0}
    first, second = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    first.init_transactions(10)
    transact(first, b"kept")
    transact(first, b"dropped", commit=False)
    transact(first, b"kept too")
    second.init_transactions(10)
    transact(second, b"of the heir")
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        transact(first, b"of the zombie")
    assert fenced.value.args[0].code() in (confluent_kafka.KafkaError._FENCED, confluent_kafka.KafkaError._STATE)


CLIENTS: dict[str, Work] = {"kafka-python": kafka_python, "aiokafka": aio, "confluent-kafka": confluent}


@pytest.mark.parametrize("name", CLIENTS)
def test_e1_c1_c3_commit_abort_and_fence(broker: MockKafka, name: str) -> None:
    address = broker.bootstrap_servers
    CLIENTS[name](address)
    expected = [b"kept", b"kept too", b"of the heir"]
    assert read_committed(address) == {0: expected, 1: expected}
    stored = [record.value for record in broker.records("orders", 0) if not record.control]
    assert stored[:4] == [b"kept", b"dropped", b"kept too", b"of the heir"], (
        "aborted records are stored, but read_committed consumers do not get them"
    )


def read_committed(address: str, topic: str = "orders", partitions: int = 2) -> dict[int, list[bytes]]:
    """Returns the records that a read_committed consumer reads up to the last stable offset of each partition."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, isolation_level="read_committed", auto_offset_reset="earliest", group_id=None,
        consumer_timeout_ms=10_000,
    )  # fmt: skip
    here = [kafka.TopicPartition(topic, index) for index in range(partitions)]
    consumer.assign(here)
    ends = consumer.end_offsets(here)
    seen: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    while any(consumer.position(each) < ends[each] for each in here):
        for each, messages in consumer.poll(timeout_ms=1000).items():
            seen[each.partition] += [message.value for message in messages]
    consumer.close()
    return seen


def transform(address: str, count: int, crash_at: int | None = None) -> None:
    """Runs a worker that reads "orders" and writes "results" in transactions. With `crash_at`, the worker stops in the middle
    of a transaction.
    """
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": "worker", "log_level": 0})
    producer.init_transactions(10)  # aborts the transaction that an earlier worker left open
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "workers", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "isolation.level": "read_committed"}
    )  # fmt: skip
    source = confluent_kafka.TopicPartition("orders", 0)
    (known,) = consumer.committed([source], timeout=10)
    source.offset = max(known.offset, 0)
    consumer.assign([source])
    while source.offset < count:
        producer.begin_transaction()
        for message in consumer.consume(5, timeout=10):
            producer.produce("results", b"from " + (message.value() or b""))
            source.offset = (message.offset() or 0) + 1
        producer.send_offsets_to_transaction([source], consumer.consumer_group_metadata(), 10)
        if crash_at is not None and source.offset >= crash_at:
            producer.flush(10)
            return  # leaves the transaction open
        producer.commit_transaction(10)
    consumer.close()


def test_e1_c7_b12_consume_transform_produce_with_confluent_kafka(broker: MockKafka) -> None:
    """The worker crashes between the processing of orders and the commit. The next worker reads the same orders again, and no
    result is visible twice.
    """
    address = broker.bootstrap_servers
    feeder = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(20):
        feeder.produce("orders", b"%d" % number, partition=0)
    assert feeder.flush(10) == 0
    transform(address, 20, crash_at=10)
    transform(address, 20)
    assert read_committed(address, "results", 1)[0] == [b"from %d" % number for number in range(20)]
    assert len([r for r in broker.records("results") if not r.control]) > 20, "the crashed worker's records are stored"
