"""A live broker's partitions, read batch by batch, and what happens when they go away meanwhile. No Spark here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkawire.messages.delete_topics import DeleteTopicsRequest
from wirebroker import MockKafka
from wirebroker_audit import wire
from wirebroker_audit.live_log import Range, read_range, split_offsets
from wirebroker_audit.wire import BrokerError, Client, LivePartition
from wirekit import RawProducer


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockKafka]:
    monkeypatch.setattr(wire, "PAUSE", 0)
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        for number in range(6):
            producer.send(3 * number, 3 * number + 2)
        yield kafka


def partitions(kafka: MockKafka) -> list[LivePartition]:
    client = Client(kafka.bootstrap_servers)
    try:
        return client.partitions(["orders"])
    finally:
        client.close()


def rows_of(ranges: list[Range]) -> list[dict[str, Any]]:
    return [row for each in ranges for chunk in read_range(each) for row in chunk.rows.to_pylist()]


def delete_records(kafka: MockKafka, offset: int) -> None:
    entry = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[entry])], timeout_ms=1000)
    answer = RawProducer(kafka).wire.request(request, 2)
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("pieces", [1, 2, 5, 18])
def test_each_batch_is_in_one_range_however_the_offsets_are_split(kafka: MockKafka, pieces: int) -> None:
    live = partitions(kafka)
    assert [(each.start, each.end, each.compacted) for each in live] == [(0, 18, False)]
    rows = rows_of(split_offsets(live, kafka.bootstrap_servers, pieces))
    assert [row["base_offset"] for row in rows] == [0, 3, 6, 9, 12, 15]
    assert {row["problem"] for row in rows} == {None}


def test_d6_a_log_start_inside_a_batch_is_no_regression(kafka: MockKafka) -> None:
    delete_records(kafka, 4)
    live = partitions(kafka)
    assert live[0].start == 4
    rows = rows_of(split_offsets(live, kafka.bootstrap_servers, 1))
    assert [(row["base_offset"], row["problem"]) for row in rows] == [(offset, None) for offset in (3, 6, 9, 12, 15)]


def test_what_is_deleted_while_it_is_read_is_said_and_the_rest_is_read(kafka: MockKafka) -> None:
    ranges = split_offsets(partitions(kafka), kafka.bootstrap_servers, 1)
    delete_records(kafka, 9)
    rows = rows_of(ranges)
    assert [(row["base_offset"], row["problem"]) for row in rows] == [(0, "deleted"), (9, None), (12, None), (15, None)]
    assert rows[0]["detail"] == "offsets 0 to 8 were deleted while they were read"


def test_a_topic_that_vanishes_is_said_with_the_offset(kafka: MockKafka) -> None:
    ranges = split_offsets(partitions(kafka), kafka.bootstrap_servers, 1)
    RawProducer(kafka).wire.request(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
    (row,) = rows_of(ranges)
    assert row["problem"] == "unreadable"
    assert row["detail"].startswith("orders-0 at offset 0: ")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in row["detail"]


def test_a_broker_that_goes_away_is_said_with_the_offset(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = split_offsets(partitions(kafka), kafka.bootstrap_servers, 1)
    monkeypatch.setattr(wire, "FETCH_BYTES", 1)  # one batch at a time
    chunks = read_range(ranges[0])
    assert next(chunks).rows.num_rows == 1
    kafka.stop()
    (row,) = [row for chunk in chunks for row in chunk.rows.to_pylist()]
    assert row["problem"] == "unreadable"
    assert row["detail"].startswith("orders-0 at offset 3: ")


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(BrokerError, match="'nowhere' is not host:port"):
        Client("nowhere")
