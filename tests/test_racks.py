"""Consumers that read from the replica in their rack (KIP-392). The responses were compared with three nodes of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from kafkawire.declare import Message
from requesting import plain
from responses import only
from wirebroker.core.racks import RACK_AWARE
from wirebroker.mock import MockKafka
from wirebroker.trace.rows import FetchRow
from wirekit import client

Start = Callable[..., MockKafka]


@pytest.fixture
def kafka(mock_kafka_factory: Start) -> MockKafka:
    """Three brokers and a topic with five records. The leader is broker 1 in rack a; brokers 2 and 3 are in rack b."""
    kafka = mock_kafka_factory(
        brokers=3, configs={"broker.rack": "a,b,b", "replica.selector.class": RACK_AWARE}, trace="exchanges"
    )
    kafka.create_topic("orders", partitions=1, replication_factor=3)
    for _ in range(5):
        kafka.produce("orders", value=b"a pound of tea")
    return kafka


def asked(offset: int = 0, rack: str = "b", **fields: Any) -> Message:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
    topics = [{"topic": "orders", "partitions": [partition]}]
    return plain(
        "Fetch", **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1_000_000, "rack_id": rack, "topics": topics} | fields
    )


def fetched(kafka: MockKafka, request: Message, node: int = 0, version: int = 12) -> tuple[int, int, bool]:
    """Sends a Fetch to a broker. Returns the error code, the preferred replica, and whether the response has records."""
    partition = only(client(kafka, node).request(request, version))
    return partition.error_code, partition.preferred_read_replica, bool(partition.records)


def test_the_leader_sends_a_consumer_to_the_replica_in_its_rack(kafka: MockKafka) -> None:
    response = only(client(kafka).request(asked(max_wait_ms=60_000, min_bytes=1_000_000), 12))
    assert (response.error_code, response.preferred_read_replica, bytes(response.records)) == (0, 3, b"")
    assert (response.high_watermark, response.last_stable_offset, response.log_start_offset) == (5, 5, 0)
    assert response.aborted_transactions is None
    assert fetched(kafka, asked(), node=2) == (0, -1, True)
    assert fetched(kafka, asked(offset=5)) == (0, 3, False), "the follower is preferred even at the end of the log"


@pytest.mark.parametrize(
    ("request_", "version", "response"),
    [
        (asked(rack="a"), 12, (0, -1, True)),
        (asked(rack="c"), 12, (0, -1, True)),
        (asked(rack=""), 12, (0, -1, True)),
        (asked(), 10, (0, -1, True)),
        (asked(offset=6), 12, (1, -1, False)),
        (asked(replica_id=2), 12, (0, -1, True)),
    ],
    ids=["its own rack", "another rack", "no rack", "an old version", "an offset out of range", "a follower"],
)
def test_the_leader_responds_by_itself(
    kafka: MockKafka, request_: Message, version: int, response: tuple[int, int, bool]
) -> None:
    assert fetched(kafka, request_, version=version) == response


def test_only_an_in_sync_replica_with_the_offset_is_named(kafka: MockKafka) -> None:
    kafka.freeze_replica("orders", 0, 3)
    kafka.produce("orders", value=b"a sixth")
    assert fetched(kafka, asked(offset=5)) == (0, 2, False), "broker 2 is preferred because it has all records"
    kafka.kill_broker(2)
    assert fetched(kafka, asked(offset=5)) == (0, 3, False), "broker 3 is preferred because its next offset is 5"
    assert fetched(kafka, asked(offset=6)) == (0, -1, False)
    kafka.clock.advance(minutes=1)
    assert fetched(kafka, asked(offset=5)) == (0, -1, True), "broker 3 is no longer in sync"


def test_a_session_names_the_replica_each_time(kafka: MockKafka) -> None:
    wire = client(kafka)
    first = wire.request(asked(session_epoch=0), 12)
    again = wire.request(asked(session_id=first.session_id, session_epoch=1, topics=[]), 12)
    assert [only(response).preferred_read_replica for response in (first, again)] == [3, 3]


def test_without_the_selector_the_leader_responds(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(brokers=3, configs={"broker.rack": "a,b,b"})
    kafka.create_topic("orders", partitions=1, replication_factor=3)
    kafka.produce("orders", value=b"a pound of tea")
    assert fetched(kafka, asked()) == (0, -1, True)


def test_clients_learn_the_racks_and_replicas_are_spread_over_them(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(brokers=3, configs={"broker.rack": "a,a,b"})
    named = client(kafka).request(plain("Metadata", topics=[]), 9).brokers
    told = client(kafka).request(plain("DescribeCluster"), 1).brokers
    assert [each.rack for each in named] == [each.rack for each in told] == ["a", "a", "b"]
    kafka.create_topic("orders", partitions=1, replication_factor=2)
    assert kafka.partition("orders").replicas == [1, 3]


@pytest.mark.parametrize(
    ("configs", "sentence"),
    [
        ({"broker.rack": "a,b"}, "broker.rack names 2 racks (a,b), and there are 3 brokers"),
        (
            {"replica.selector.class": "com.example.Mine"},
            "Invalid value com.example.Mine for configuration replica.selector.class",
        ),
    ],
)
def test_racks_and_selectors_that_cannot_be(configs: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError) as refused, MockKafka(brokers=3, configs=configs):
        pass
    assert str(refused.value).startswith(sentence)


def test_librdkafka_reads_from_the_replica_in_its_rack(kafka: MockKafka) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "team", "client.rack": "b", "enable.auto.commit": False}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        values = [message.value() for message in consumer.consume(5, 20)]
    finally:
        consumer.close()
    assert values == [b"a pound of tea"] * 5
    reads = [row for row in kafka.trace.events("fetch") if isinstance(row, FetchRow) and row.bytes]
    assert {row.node for row in reads} == {3}
