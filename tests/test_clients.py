"""Unmodified clients use the broker over TCP (E1, E2, E3). Their retries and duplicates have the expected results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import kafka.errors
import pytest

from wirebroker.mock import MockKafka

COUNT = 60


@pytest.fixture(params=[1, 3], ids=["one_broker", "three_brokers"])
def broker(request: pytest.FixtureRequest, mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(brokers=request.param, topics={"orders": 3})


def values(count: int = COUNT) -> set[bytes]:
    return {b"value %d" % i for i in range(count)}


# Each client produces the values with an idempotent producer, and returns the acknowledged offsets by partition.


def produce_kafka_python(address: str) -> list[tuple[int, int]]:
    producer = kafka.KafkaProducer(bootstrap_servers=address, enable_idempotence=True, acks="all")
    futures = [producer.send("orders", value, key=value) for value in sorted(values())]
    told = [(future.get(10).partition, future.get(10).offset) for future in futures]
    producer.close()
    return told


def produce_aiokafka(address: str) -> list[tuple[int, int]]:
    async def work() -> list[tuple[int, int]]:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
            futures = [await producer.send("orders", value, key=value) for value in sorted(values())]
            told = await asyncio.gather(*futures)
        return [(one.partition, one.offset) for one in told]

    return asyncio.run(work())


def produce_confluent(address: str) -> list[tuple[int, int]]:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True})
    told: list[tuple[int, int]] = []
    for value in sorted(values()):
        producer.produce("orders", value, key=value, on_delivery=lambda _, m: told.append((m.partition(), m.offset())))
    assert producer.flush(10) == 0
    return told


# Each client joins a group, reads the values, and commits.


def consume_kafka_python(address: str, group: str) -> set[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe(["orders"])
    consumer.partitions_for_topic("orders")  # otherwise the client finds the topic after its join, joins again, and may hang
    found: set[bytes] = set()
    end = time.monotonic() + 20
    while len(found) < COUNT and time.monotonic() < end:
        for records in consumer.poll(timeout_ms=200).values():
            found |= {record.value for record in records}
    consumer.commit()
    consumer.close()
    return found


def consume_aiokafka(address: str, group: str) -> set[bytes]:
    async def work() -> set[bytes]:
        found: set[bytes] = set()
        consumer = aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        async with consumer, asyncio.timeout(20):
            while len(found) < COUNT:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found |= {record.value for record in records}
            await consumer.commit()
        return found

    return asyncio.run(work())


def consume_confluent(address: str, group: str) -> set[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    found: set[bytes] = set()
    end = time.monotonic() + 20
    while len(found) < COUNT and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.add(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


PRODUCE = {"kafka-python": produce_kafka_python, "aiokafka": produce_aiokafka, "confluent-kafka": produce_confluent}
CONSUME = {"kafka-python": consume_kafka_python, "aiokafka": consume_aiokafka, "confluent-kafka": consume_confluent}


@pytest.mark.parametrize("name", PRODUCE)
def test_e1_produce_idempotently_and_consume_in_a_group(broker: MockKafka, name: str) -> None:
    told = PRODUCE[name](broker.bootstrap_servers)
    stored = broker.records("orders")
    assert sorted(told) == sorted((record.partition, record.offset) for record in stored)
    assert {record.value for record in stored} == values()
    assert all(record.producer_id >= 0 for record in stored)
    by_partition: dict[int, list[int]] = {}
    for record in stored:
        by_partition.setdefault(record.partition, []).append(record.sequence)
    assert all(sequences == list(range(len(sequences))) for sequences in by_partition.values())
    assert {row.verdict for row in broker.trace.produce("orders")} == {"accepted"}
    for consume in CONSUME:
        assert CONSUME[consume](broker.bootstrap_servers, f"group-{consume}") == values()


def test_e1_two_members_share_the_partitions(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory(topics={"orders": 4})

    async def work() -> list[set[Any]]:
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers, "group_id": "pair", "heartbeat_interval_ms": 100,
        }  # fmt: skip
        async with (
            aiokafka.AIOKafkaConsumer("orders", **settings) as one,
            aiokafka.AIOKafkaConsumer("orders", **settings) as two,
            asyncio.timeout(20),
        ):
            while not (len(one.assignment()) == len(two.assignment()) == 2):
                await asyncio.gather(one.getmany(timeout_ms=50), two.getmany(timeout_ms=50))
            return [set(one.assignment()), set(two.assignment())]

    one, two = asyncio.run(work())
    assert not one & two
    assert len(one | two) == 4


def test_e1_admin_clients(broker: MockKafka) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([confluent_kafka.admin.NewTopic("made", 2, 1, config={"retention.ms": "5"})])["made"].result(10)
    assert len(admin.list_topics(timeout=10).topics["made"].partitions) == 2
    resource = confluent_kafka.admin.ConfigResource(confluent_kafka.admin.ConfigResource.Type.TOPIC, "made")
    assert admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "5"
    other = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    assert "made" in other.list_topics()
    other.close()
    admin.delete_topics(["made"])["made"].result(10)
    assert "made" not in admin.list_topics(timeout=10).topics


def test_e2_the_settings_that_the_articles_show(mock_kafka: MockKafka) -> None:
    """The articles show these settings for Java: acks=all, retries, max.in.flight ≤ 5, enable.idempotence. librdkafka has the
    same settings."""
    settings = {
        "bootstrap.servers": mock_kafka.bootstrap_servers, "acks": "all", "retries": 2147483647,
        "max.in.flight.requests.per.connection": 5, "enable.idempotence": True,
    }  # fmt: skip
    producer = confluent_kafka.Producer(settings)
    producer.produce("articles", b"hello")
    assert producer.flush(10) == 0
    python = kafka.KafkaProducer(
        bootstrap_servers=mock_kafka.bootstrap_servers, acks="all", retries=2147483647,
        max_in_flight_requests_per_connection=5, enable_idempotence=True,
    )  # fmt: skip
    python.send("articles", b"hello").get(10)
    python.close()
    assert [record.value for record in mock_kafka.records("articles")] == [b"hello", b"hello"]


CONFLICTS = [{"acks": "1"}, {"max.in.flight.requests.per.connection": 6}, {"retries": 0}]


@pytest.mark.parametrize("conflict", CONFLICTS, ids=lambda conflict: next(iter(conflict)))
def test_e3_librdkafka_refuses_conflicting_settings(mock_kafka: MockKafka, conflict: dict[str, object]) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match="idempotence"):
        confluent_kafka.Producer({"bootstrap.servers": mock_kafka.bootstrap_servers, "enable.idempotence": True} | conflict)


@pytest.mark.parametrize(
    "conflict", [{"acks": 1}, {"max_in_flight_requests_per_connection": 6}, {"retries": 0}], ids=lambda c: next(iter(c))
)
def test_e3_kafka_python_refuses_conflicting_settings(mock_kafka: MockKafka, conflict: dict[str, Any]) -> None:
    with pytest.raises(kafka.errors.KafkaConfigurationError):
        kafka.KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers, enable_idempotence=True, **conflict)


def test_e3_aiokafka_refuses_conflicting_settings(mock_kafka: MockKafka) -> None:
    async def make() -> None:
        aiokafka.AIOKafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers, enable_idempotence=True, acks=1)

    with pytest.raises(ValueError, match="acks"):
        asyncio.run(make())


def test_a1_a_restarted_producer_has_a_new_id(mock_kafka: MockKafka) -> None:
    for _ in range(2):
        producer = kafka.KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers)
        producer.send("orders", b"x").get(10)
        producer.close()
    first, second = mock_kafka.records("orders")
    assert (first.sequence, second.sequence) == (0, 0)
    assert first.producer_id != second.producer_id


@pytest.mark.parametrize("profile", ["kafka-2.3", "kafka-0.11"])
def test_a_client_of_an_old_broker_speaks_its_versions(profile: str, mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory(profile=profile)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("orders", b"x")
    assert producer.flush(10) == 0
    newest = {"kafka-2.3": 7, "kafka-0.11": 3}[profile]
    assert {row.version for row in broker.trace.produce("orders")} == {newest}


def test_the_client_is_named_in_the_trace(mock_kafka: MockKafka) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers, client_id="shop")
    producer.send("orders", b"x").get(10)
    producer.close()
    (row,) = mock_kafka.trace.produce("orders")
    assert row.client_id == "shop"
    assert row.software.startswith("kafka-python/")
