"""The demo's first half: unmodified client libraries, each producing with idempotence on and reading in a group.

A library is imported only when it is its turn, so that one that is not installed is skipped by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from wirebroker.mock import MockKafka
from wirebroker.trace.rows import ProduceRow

PARTITIONS = 3
RECORDS, ROUND = 60, 15
"""How many records each client sends, and after how many it waits for their acknowledgements."""
TIMEOUT = 15.0
"""Seconds that a client may take to produce, and again to consume."""

VALUES = [b"order %d" % number for number in range(RECORDS)]

Told = list[tuple[int, int]]
"""Partition and offset of each acknowledgement."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client library: its distribution, and how it produces and consumes."""

    package: str
    produce: Callable[[str, str, list[bytes]], Told]
    consume: Callable[[str, str, int], list[bytes]]


@dataclass(slots=True)
class ClientResult:
    """What came of one client. `skipped` says why it was not run."""

    name: str
    sent: int = RECORDS
    acknowledged: int = 0
    stored: int = 0
    read: int = 0
    twice: int = 0
    rows: list[ProduceRow] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    skipped: str = ""


def topic_of(client: Client) -> str:
    """The topic that is the client's own."""
    return f"{client.package}-orders"


def drive(client: Client, kafka: MockKafka) -> ClientResult:
    """Produce and consume with this client, and compare what it was told with what is stored."""
    try:
        result = ClientResult(f"{client.package} {version(client.package)}")
    except PackageNotFoundError:
        return ClientResult(client.package, 0, skipped=f"not installed: pip install {client.package}")
    topic, values = topic_of(client), VALUES
    kafka.create_topic(topic, PARTITIONS)
    told: Told = []
    read: list[bytes] = []
    try:
        told = client.produce(kafka.bootstrap_servers, topic, values)
        read = client.consume(kafka.bootstrap_servers, topic, len(values))
    except Exception as failed:  # whatever a client raises is a finding, and the others are still to come
        result.differences.append(f"{client.package} failed: {type(failed).__name__}: {failed}")
    _compare(result, kafka, topic, values, told, read)
    return result


def _compare(result: ClientResult, kafka: MockKafka, topic: str, values: list[bytes], told: Told, read: list[bytes]) -> None:
    stored = kafka.records(topic)
    result.rows = kafka.trace.produce(topic)
    result.acknowledged, result.stored, result.read = len(told), len(stored), len(read)
    result.twice = len(stored) - len({record.value for record in stored})
    expectations = {
        "each record is stored once": sorted(record.value or b"" for record in stored) == sorted(values),
        "the offsets acknowledged are those stored": sorted(told) == [(r.partition, r.offset) for r in stored],
        "every batch carries a producer id": all(record.producer_id >= 0 for record in stored),
        "every batch is accepted": all(row.verdict == "accepted" for row in result.rows),
        "the group reads each record once": sorted(read) == sorted(values),
    }
    result.differences += [f"expected that {what}" for what, holds in expectations.items() if not holds]


# The libraries. Records go to the partitions in turn, and every acknowledgement is waited for.


def _rounds(values: list[bytes]) -> list[list[bytes]]:
    return [values[i : i + ROUND] for i in range(0, len(values), ROUND)]


def _produce_kafka_python(address: str, topic: str, values: list[bytes]) -> Told:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True)
    told: Told = []
    for part in _rounds(values):
        futures = [producer.send(topic, value, partition=i % PARTITIONS) for i, value in enumerate(part)]
        told += [(future.get(TIMEOUT).partition, future.get(TIMEOUT).offset) for future in futures]
    producer.close()
    return told


def _consume_kafka_python(address: str, topic: str, count: int) -> list[bytes]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=address, group_id=f"{topic}-readers", auto_offset_reset="earliest")
    consumer.subscribe([topic])
    consumer.partitions_for_topic(topic)  # learnt before the join: it joins again for a topic learnt later, and may hang
    found: list[bytes] = []
    end = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < end:
        for records in consumer.poll(timeout_ms=100).values():
            found += [record.value for record in records]
    consumer.close()
    return found


def _produce_aiokafka(address: str, topic: str, values: list[bytes]) -> Told:
    from aiokafka import AIOKafkaProducer

    async def work() -> Told:
        told: Told = []
        async with (
            AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer,
            asyncio.timeout(TIMEOUT),
        ):
            for part in _rounds(values):
                sent = [await producer.send(topic, value, partition=i % PARTITIONS) for i, value in enumerate(part)]
                told += [(answer.partition, answer.offset) for answer in await asyncio.gather(*sent)]
        return told

    return asyncio.run(work())


def _consume_aiokafka(address: str, topic: str, count: int) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer

    async def work() -> list[bytes]:
        found: list[bytes] = []
        async with (
            AIOKafkaConsumer(
                topic, bootstrap_servers=address, group_id=f"{topic}-readers", auto_offset_reset="earliest"
            ) as consumer,
            asyncio.timeout(TIMEOUT),
        ):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += [record.value for record in records]
        return found

    return asyncio.run(work())


def _produce_confluent(address: str, topic: str, values: list[bytes]) -> Told:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    told: Told = []
    for part in _rounds(values):
        for i, value in enumerate(part):
            producer.produce(
                topic, value, partition=i % PARTITIONS,
                on_delivery=lambda error, m: told.append((m.partition() or 0, m.offset() or 0)) if error is None else None,
            )  # fmt: skip
        producer.flush(TIMEOUT)
    return told


def _consume_confluent(address: str, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": address, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest", "log_level": 0,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: list[bytes] = []
    end = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < end:
        messages = consumer.consume(count, timeout=0.1)
        found += [message.value() or b"" for message in messages if message.error() is None]
    consumer.close()
    return found


CLIENTS = (
    Client("kafka-python", _produce_kafka_python, _consume_kafka_python),
    Client("aiokafka", _produce_aiokafka, _consume_aiokafka),
    Client("confluent-kafka", _produce_confluent, _consume_confluent),
)
