"""The demo's first half. Each client library, unmodified, produces with idempotence and reads in a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from wirebroker.mock import MockKafka
from wirebroker.trace.rows import ProduceRow
from wirebroker_tools.drivers import PACKAGES, ClientName, NotInstalled, ProducerSettings, client_version, driver

CLIENTS: tuple[ClientName, ...] = ("kafka-python", "aiokafka", "confluent")
PARTITIONS = 3
RECORDS, ROUND = 60, 15
"""Each client sends `RECORDS` records, and waits for the acknowledgements after every `ROUND` records."""
TIMEOUT = 15.0
"""A client may take this many seconds to produce, and this many seconds to consume."""
VALUES = [f"order {number}" for number in range(RECORDS)]
PARTITION_OF = {value: number % PARTITIONS for number, value in enumerate(VALUES)}


@dataclass(slots=True)
class ClientResult:
    """The outcome of one client. `skipped` is the reason why the client did not run."""

    name: str
    sent: int = RECORDS
    acknowledged: int = 0
    stored: int = 0
    read: int = 0
    twice: int = 0
    rows: list[ProduceRow] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    skipped: str = ""


def topic_of(client: ClientName) -> str:
    """Returns the client's own topic."""
    return f"{PACKAGES[client]}-orders"


def drive(client: ClientName, kafka: MockKafka) -> ClientResult:
    """Produce and consume with this client, and compare its acknowledgements with the stored records."""
    package = PACKAGES[client]
    try:
        result = ClientResult(f"{package} {client_version(client)}")
    except NotInstalled as missing:
        return ClientResult(package, 0, skipped=str(missing))
    topic, acknowledged, read = topic_of(client), dict[str, int](), list[str]()
    kafka.create_topic(topic, PARTITIONS)
    try:
        _produce(client, kafka.bootstrap_servers, topic, acknowledged)
        read = _consume(client, kafka.bootstrap_servers, topic)
    except Exception as failed:  # an exception of one client is a difference, and the other clients still run
        result.differences.append(f"{package} failed: {type(failed).__name__}: {failed}")
    _compare(result, kafka, topic, acknowledged, read)
    return result


def _produce(client: ClientName, address: str, topic: str, acknowledged: dict[str, int]) -> None:
    """Send all records, and note the offset of each acknowledged record in `acknowledged`."""

    def report(value: str, offset: int, error: str) -> None:
        if not error:
            acknowledged[value] = offset

    producer = driver(client).Producer(address, ProducerSettings(quick=False), report)
    producer.start()
    for first in range(0, RECORDS, ROUND):
        for value in VALUES[first : first + ROUND]:
            producer.send(topic, value, PARTITION_OF[value])
        producer.flush(TIMEOUT)
    producer.close(TIMEOUT)


def _consume(client: ClientName, address: str, topic: str) -> list[str]:
    reader = driver(client).Reader(address, topic, f"{topic}-readers", "read_uncommitted", member=True)
    read = [value for _, value in reader.read(None, RECORDS, TIMEOUT)]
    reader.close()
    return read


def _compare(result: ClientResult, kafka: MockKafka, topic: str, acknowledged: dict[str, int], read: list[str]) -> None:
    stored = kafka.records(topic)
    values = [(record.value or b"").decode() for record in stored]
    offsets = sorted((PARTITION_OF[value], offset) for value, offset in acknowledged.items())
    result.rows = kafka.trace.produce(topic)
    result.acknowledged, result.stored, result.read = len(acknowledged), len(stored), len(read)
    result.twice = len(values) - len(set(values))
    expectations = {
        "each record is stored once": sorted(values) == sorted(VALUES),
        "the acknowledged offsets are the stored offsets": offsets == [(record.partition, record.offset) for record in stored],
        "every batch carries a producer id": all(record.producer_id >= 0 for record in stored),
        "every batch is accepted": all(row.verdict == "accepted" for row in result.rows),
        "the group reads each record once": sorted(read) == sorted(VALUES),
    }
    result.differences += [f"expected that {what}" for what, holds in expectations.items() if not holds]
