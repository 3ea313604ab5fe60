"""Clients of old releases (kafka-python with a fixed `api_version`). The broker has the profiles of releases that support the
clients' versions.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from requesting import add_offsets, add_partitions, end_txn, find_coordinator, init_producer_id, plain, txn_offset_commit
from responses import only
from wirebroker.mock import MockKafka
from wirekit import client

PINNED = [
    ("kafka-0.11", (0, 9)), ("kafka-2.8", (0, 9)), ("kafka-2.8", (0, 10, 0)), ("kafka-3.9", (0, 10, 1)), ("kafka-3.9", (0, 11)),
    ("kafka-2.8", (1, 0)), ("kafka-0.11", None),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "api_version"), PINNED, ids=str)
def test_an_old_client_produces_consumes_and_commits(profile: str, api_version: tuple[int, ...] | None) -> None:
    with MockKafka(profile=profile, topics={"orders": 1}) as kafka:
        settings: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "api_version": api_version}
        producer = KafkaProducer(compression_type="gzip", enable_idempotence=False, **settings)
        sent = [producer.send("orders", value=b"v%d" % at) for at in range(20)]
        assert [each.get(10).offset for each in sent] == list(range(20))
        producer.close()
        consumer = KafkaConsumer(
            "orders", group_id="team", auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=10_000,
            **settings,
        )  # fmt: skip
        found = [next(consumer).value for _ in range(20)]
        consumer.commit()
        assert (found, consumer.committed(TopicPartition("orders", 0))) == ([b"v%d" % at for at in range(20)], 20)
        consumer.close()


def test_a_transaction_has_offsets_before_anybody_asked_for_the_groups_coordinator(mock_kafka: MockKafka) -> None:
    """The Java client 2.8 sends the requests of this test. The transaction has the group's partition of __consumer_offsets
    before this topic exists.
    """
    mock_kafka.create_topic("orders")
    wire = client(mock_kafka)
    while only(wire.request(find_coordinator("tx", kind=1), 4)).error_code:
        pass
    started = wire.request(init_producer_id("tx"), 3)
    producer = started.producer_id, started.producer_epoch
    for request in (add_partitions("tx", producer), add_offsets("tx", producer, "team")):
        wire.request(request, 3)
    while only(wire.request(find_coordinator("team"), 4)).error_code:
        pass
    assert only(wire.request(txn_offset_commit("tx", producer, "team", 7), 3)).error_code == 0
    assert wire.request(end_txn("tx", producer, True), 3).error_code == 0
    fetched = plain("OffsetFetch", group_id="team", topics=[{"name": "orders", "partition_indexes": [0]}], require_stable=True)
    assert only(wire.request(fetched, 7)).committed_offset == 7
