"""Topics that the broker creates when a client requests their metadata, and the time that the creation takes."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from wirebroker.client.wire import WireClient
from wirebroker.mock import MockKafka
from wirekit import client

Start = Callable[..., MockKafka]


def asked(wire: WireClient) -> MetadataResponseTopic:
    response = wire.request(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9)
    found: MetadataResponseTopic = response.topics[0]
    return found


def test_on_a_cold_start_a_topic_is_there_after_35_ms(mock_kafka_factory: Start) -> None:
    """Kafka 4.3.1 responds with UNKNOWN_TOPIC_OR_PARTITION until the topic exists, and then with the topic's leader."""
    broker = mock_kafka_factory(cold_start=True)
    wire, began = client(broker), broker.clock.now()
    codes = [asked(wire).error_code]
    while codes[-1]:
        codes.append((found := asked(wire)).error_code)
    assert set(codes) == {3, 0}
    assert [(each.error_code, each.leader_id) for each in found.partitions] == [(0, 1)]
    assert broker.clock.now() - began >= 35


def test_without_a_cold_start_or_with_a_frozen_clock_it_is_there_at_once(mock_kafka_factory: Start) -> None:
    for options in ({}, {"cold_start": True, "clock": "frozen"}):
        wire = client(mock_kafka_factory(**options))
        assert [asked(wire).error_code for _ in range(2)] == [3, 0]


def test_a_restart_in_between_does_not_lose_the_topic(mock_kafka_factory: Start) -> None:
    broker = mock_kafka_factory(cold_start=True)
    asked(client(broker))
    broker.restart()
    broker.clock.advance(seconds=1)
    wire = client(broker)
    assert asked(wire).error_code == 3
    broker.clock.advance(seconds=1)
    assert asked(wire).error_code == 0
