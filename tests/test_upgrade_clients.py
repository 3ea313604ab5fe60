"""Real clients during a rolling upgrade: no record is lost or stored twice, and transactions complete."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from wirebroker.mock import MockKafka
from wirebroker_tools.drivers import ClientName, ProducerSettings, driver

EACH = 3
"""The number of records in each transaction."""
SOON = 60
DELIVERY_MS = 60_000
"""The time for which producers try to deliver a record. On a busy machine, an upgrade takes longer than the drivers' default of
4 s.
"""


class Application:
    """Runs a producer, a transactional producer and a group member until `stop` is called. Each runs in its own thread."""

    def __init__(self, client: ClientName, address: str) -> None:
        self._library, self._address = driver(client), address
        self._ended = threading.Event()
        self._until = math.inf
        self.acknowledged: list[str] = []
        self._produced = threading.Event()
        self.read: set[str] = set()

    def produce(self) -> None:
        producer = self._library.Producer(self._address, ProducerSettings(delivery_timeout=DELIVERY_MS), self._reported)
        producer.start()
        number = 0
        while not self._ended.wait(0.01):
            producer.send("orders", f"plain-{number}", number % 3)
            number += 1
        producer.flush(SOON)
        producer.close(SOON)
        self._produced.set()
        assert len(self.acknowledged) == number

    def _reported(self, value: str, offset: int, error: str) -> None:
        assert not error, f"{value}: {error}"
        self.acknowledged.append(value)

    def commit(self) -> list[str]:
        settings = ProducerSettings(transactional_id="till", delivery_timeout=DELIVERY_MS)
        producer = self._library.Producer(self._address, settings, lambda *_: None)
        producer.start()
        values: list[str] = []
        while not self._ended.wait(0.01):
            producer.begin()
            some = [f"transaction-{len(values) + each}" for each in range(EACH)]
            for partition, value in enumerate(some):
                producer.send("payments", value, partition)
            producer.flush(SOON)
            producer.commit()
            values += some
        producer.close(SOON)
        return values

    def consume(self) -> None:
        reader = self._library.Reader(self._address, "orders", "team", "read_committed", member=True)
        while time.monotonic() < self._until and not (self._produced.is_set() and self.read.issuperset(self.acknowledged)):
            self.read |= {value for _, value in reader.read(None, 1000, 0.2)}
        reader.close()

    def stop(self) -> None:
        self._until = time.monotonic() + SOON
        self._ended.set()


@pytest.mark.parametrize("client", ["aiokafka", "confluent"])  # kafka-python 3.0.12 can wait for ever after a broker has left
@pytest.mark.parametrize(("profile", "to"), [("kafka-3.9", "kafka-4.3"), ("kafka-2.8", "kafka-4.3")])
def test_clients_live_through_an_upgrade(
    client: ClientName, profile: str, to: str, mock_kafka_factory: Callable[..., MockKafka]
) -> None:
    configs = {"default.replication.factor": 3, "min.insync.replicas": 2}
    kafka = mock_kafka_factory(brokers=3, profile=profile, topics={"orders": 3, "payments": 3}, configs=configs)
    application = Application(client, kafka.bootstrap_servers)
    committed: list[str] = []
    with ThreadPoolExecutor(3) as pool:
        running: list[Future[None]] = []
        try:
            running += map(pool.submit, (application.produce, application.consume))
            running.append(pool.submit(lambda: committed.extend(application.commit())))
            kafka.wait_for_records("payments", 30, SOON, committed=True)
            kafka.wait_until(lambda: "team" in kafka.groups() and kafka.groups()["team"].state == "Stable", SOON)
            kafka.upgrade(to, pause=0.2)
            assert {each.release for each in kafka.brokers().values()} == {to.removeprefix("kafka-")}
            done = len(kafka.records("payments", committed=True))
            kafka.wait_for_records("payments", done + 30, SOON, committed=True)
        finally:
            application.stop()
        for each in running:
            each.result(SOON)
    assert sorted(record.text() for record in kafka.records("payments", committed=True)) == sorted(committed)
    assert sorted(record.text() for record in kafka.records("orders")) == sorted(application.acknowledged)
    assert sorted(application.read) == sorted(application.acknowledged)
    assert {each.state for each in kafka.transactions().values()} <= {"CompleteCommit"}
    kafka.audit().assert_exactly_once()
