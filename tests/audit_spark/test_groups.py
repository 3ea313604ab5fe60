"""The audit compares the commits of groups with the logs. It finds commits that go back and offsets outside the log, and counts
the inputs and outputs of pipelines."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from confluent_kafka import Consumer, Producer, TopicPartition

from wirebroker import MockKafka
from wirebroker_audit.checks.groups import OFFSETS_TOPIC, Seen, findings_of, read_commits, summary_of
from wirebroker_audit.job import audit
from wirebroker_audit.logs.planning import find_pieces
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
NOW = 2**60


class Shop:
    """Makes the commits of consumer groups on a broker."""

    def __init__(self, kafka: MockKafka) -> None:
        self._config = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        self._consumer = self.consumer("till")
        self._producers: dict[str, Producer] = {}

    def consumer(self, group: str) -> Consumer:
        return Consumer(self._config | {"group.id": group, "enable.auto.commit": False})

    def commit(self, group: str, offset: int, topic: str = "orders") -> None:
        consumer = self.consumer(group)
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()

    def transform(self, group: str, offset: int, outputs: int, end: str = "commit") -> None:
        """In one transaction, the group's producer writes `outputs` records and commits the group's offset."""
        if group not in self._producers:
            self._producers[group] = Producer(self._config | {"transactional.id": group})
            self._producers[group].init_transactions(20)
        producer, consumer = self._producers[group], self.consumer(group)
        producer.begin_transaction()
        for number in range(outputs):
            producer.produce("invoices", f"{offset}.{number}")
        producer.flush(20)
        producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], consumer.consumer_group_metadata(), 20)
        if end == "commit":
            producer.commit_transaction(20)
        elif end == "abort":
            producer.abort_transaction(20)
        consumer.close()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    with MockKafka(topics=["orders", "invoices"], data=tmp_path / "logs") as kafka:
        for number in range(20):
            kafka.produce("orders", value=f"order {number}")
        shop = Shop(kafka)
        for offset in (5, 9, 6, 12):
            shop.commit("till", offset)
        shop.commit("ahead", 25)
        shop.commit("other topic", 3, "invoices")
        shop.transform("bills", 4, 2)
        shop.transform("bills", 8, 2, "abort")
        shop.transform("bills", 10, 3)
        shop.transform("bills", 7, 1)
        shop.transform("bills", 9, 5, "leave open")
    return tmp_path / "logs"


def seen(logs: Path, *topics: str) -> Seen:
    found = Seen()
    for split in find_pieces(logs, (OFFSETS_TOPIC,)):
        found.add(read_commits(chain.from_iterable([read_piece(split)]), frozenset(topics)))
    return found


def test_commits_that_went_back_and_offsets_outside_the_log(logs: Path) -> None:
    found = sorted(findings_of(seen(logs), {("orders", 0): (11, 20)}, NOW), key=lambda each: (each.kind, each.explanation))
    assert [(each.kind, each.severity, json.loads(each.evidence)["group"], each.first_offset, each.last_offset)
            for each in found] == [
        ("commit_regression", "likely", "bills", 7, 9), ("commit_regression", "likely", "till", 6, 8),
        ("group_skipped", "info", "ahead", 20, 24), ("group_skipped", "info", "bills", 7, 10),
    ]  # fmt: skip
    bills, till, ahead, late = (each.explanation for each in found)
    assert till.startswith("orders-0: group 'till' committed offset 6 at ")
    assert till.endswith(": the 3 records from there on may have been processed twice")
    assert bills.endswith("committed it in a transaction, so the outputs may exist twice as well")
    assert "has committed offset 25, but the log ends at 20" in ahead
    assert "has committed offset 7, but the log begins at 11 by now" in late


def test_a_commit_after_the_audit_began_may_be_beyond_the_end_that_it_saw(logs: Path) -> None:
    assert {each.kind for each in findings_of(seen(logs), {("orders", 0): (0, 20)}, 0)} == {"commit_regression"}


def test_consume_transform_produce_is_counted(logs: Path) -> None:
    commits = seen(logs, "orders")
    (producer,) = commits.pipelines["bills"].producers
    told = summary_of(commits, {("orders", 0): (0, 20)}, {producer: (6, 2), 4711: (9, 9)})
    assert told["pipelines"] == [
        {"group": "bills", "producers": 1, "committed": 3, "aborted": 1, "open": 1, "first_commits": 1, "inputs": 6,
         "inputs_again": 3, "outputs": 6, "outputs_aborted": 2}
    ]  # fmt: skip
    assert [(each["group"], each["committed"], each["commits"], each["lag"]) for each in told["groups"]] == [
        ("ahead", 25, 1, 0), ("bills", 7, 3, 13), ("till", 12, 4, 8),
    ]  # fmt: skip


def test_the_report_has_it(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    result = audit(spark, Request(out=tmp_path / "out", path=logs, topics=("orders", "invoices")))
    assert result.summary["findings"] == {"commit_regression": 2, "group_skipped": 1, "open_transaction": 1}
    (pipeline,) = result.summary["pipelines"]
    assert (pipeline["outputs"], pipeline["outputs_aborted"], pipeline["inputs_again"]) == (6, 2, 3)
