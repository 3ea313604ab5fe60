"""A live broker's partitions, read batch by batch, also while partitions disappear. No Spark here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.declare import Message
from kafkawire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkawire.messages.delete_topics import DeleteTopicsRequest
from responses import only
from wirebroker import MockKafka
from wirebroker_audit import wire
from wirebroker_audit.logs.planning import cluster_pieces
from wirebroker_audit.reading.folders import EVERYTHING
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.reading.reader import read_piece
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


def rows_of(ranges: list[Piece]) -> list[dict[str, Any]]:
    return [row for each in ranges for chunk in read_piece(each) for row in chunk.rows.to_pylist()]


def delete_records(kafka: MockKafka, offset: int) -> None:
    entry = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[entry])], timeout_ms=1000)
    response = RawProducer(kafka).wire.request(request, 2)
    assert only(response).error_code == 0


@pytest.mark.parametrize("pieces", [1, 2, 5, 18])
def test_each_batch_is_in_one_range_however_the_offsets_are_split(kafka: MockKafka, pieces: int) -> None:
    live = partitions(kafka)
    assert [(each.start, each.end, each.compacted) for each in live] == [(0, 18, False)]
    rows = rows_of(cluster_pieces(live, kafka.bootstrap_servers, pieces))
    assert [row["base_offset"] for row in rows] == [0, 3, 6, 9, 12, 15]
    assert {row["problem"] for row in rows} == {None}


def test_d6_a_log_start_inside_a_batch_is_no_regression(kafka: MockKafka) -> None:
    delete_records(kafka, 4)
    live = partitions(kafka)
    assert live[0].start == 4
    rows = rows_of(cluster_pieces(live, kafka.bootstrap_servers))
    assert [(row["base_offset"], row["problem"]) for row in rows] == [(offset, None) for offset in (3, 6, 9, 12, 15)]


def test_what_is_deleted_while_it_is_read_is_said_and_the_rest_is_read(kafka: MockKafka) -> None:
    ranges = cluster_pieces(partitions(kafka), kafka.bootstrap_servers)
    delete_records(kafka, 9)
    rows = rows_of(ranges)
    assert [(row["base_offset"], row["problem"]) for row in rows] == [(0, "deleted"), (9, None), (12, None), (15, None)]
    assert rows[0]["detail"] == "offsets 0 to 8 were deleted while they were read"


def test_a_topic_that_vanishes_is_said_with_the_offset(kafka: MockKafka) -> None:
    ranges = cluster_pieces(partitions(kafka), kafka.bootstrap_servers)
    RawProducer(kafka).wire.request(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
    (row,) = rows_of(ranges)
    assert row["problem"] == "unreadable"
    assert row["detail"].startswith("orders-0 at offset 0: ")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in row["detail"]


def test_a_broker_that_goes_away_is_said_with_the_offset(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = cluster_pieces(partitions(kafka), kafka.bootstrap_servers)
    monkeypatch.setattr(wire, "FETCH_BYTES", 1)  # one batch at a time
    chunks = read_piece(ranges[0])
    assert next(chunks).rows.num_rows == 1
    kafka.stop()
    (row,) = [row for chunk in chunks for row in chunk.rows.to_pylist()]
    assert row["problem"] == "unreadable"
    assert row["detail"].startswith("orders-0 at offset 3: ")


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(BrokerError, match="'nowhere' is not host:port"):
        Client("nowhere")


Responding = Callable[[Any], Any]


@pytest.fixture
def responding(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Responding], None]:
    """Returns a function that lets `how` change each response to the requests named `name` before the client reads it."""
    ask = Client._ask

    def change(name: str, how: Responding) -> None:
        def changed(client: Client, address: str, request: Message) -> Any:
            response = ask(client, address, request)
            return how(response) if type(request).__name__ == name else response

        monkeypatch.setattr(Client, "_ask", changed)

    return change


class After:
    """Leaves the first `first` responses unchanged, and applies `how` to the next `count` responses."""

    def __init__(self, first: int, how: Responding, count: int = 10**6) -> None:
        self.first, self.how, self.count, self.calls = first, how, count, 0

    def __call__(self, response: Any) -> Any:
        self.calls += 1
        return self.how(response) if self.first < self.calls <= self.first + self.count else response


def without_batches(response: Any) -> Any:
    only(response).records = b""
    return response


def throttled(response: Any) -> Any:
    """Returns a response like the response of Kafka's FetchContext.getThrottledResponse."""
    return SimpleNamespace(throttle_time_ms=700, error_code=0, session_id=0, responses=[])


def told(rows: list[dict[str, Any]]) -> list[tuple[int, str | None]]:
    return [(row["base_offset"], row["problem"]) for row in rows]


def test_a_response_without_batches_is_no_end_of_the_log(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch, responding: Callable[[str, Responding], None]
) -> None:
    monkeypatch.setattr(wire, "FETCH_BYTES", 1)
    ranges = cluster_pieces(partitions(kafka), kafka.bootstrap_servers)
    responding("FetchRequest", After(1, without_batches, 3))
    assert told(rows_of(ranges)) == [(offset, None) for offset in (0, 3, 6, 9, 12, 15)]


@pytest.mark.parametrize(("compacted", "end"), [(False, [(3, "unreadable")]), (None, []), (True, [])])
def test_offsets_that_never_come_are_said_unless_compaction_may_have_taken_them(
    kafka: MockKafka,
    monkeypatch: pytest.MonkeyPatch,
    responding: Callable[[str, Responding], None],
    compacted: bool | None,
    end: list[tuple[int, str]],
) -> None:
    monkeypatch.setattr(wire, "FETCH_BYTES", 1)
    live = [replace(each, compacted=compacted) for each in partitions(kafka)]
    responding("FetchRequest", After(1, without_batches))
    rows = rows_of(cluster_pieces(live, kafka.bootstrap_servers))
    assert told(rows) == [(0, None), *end]
    if end:
        assert rows[-1]["detail"].startswith("orders-0 at offset 3: 4 responses without a batch")


def test_a_broker_that_throttles_is_asked_again_when_it_listens(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch, responding: Callable[[str, Responding], None]
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(wire.time, "sleep", pauses.append)
    monkeypatch.setattr(wire, "FETCH_BYTES", 1)
    ranges = cluster_pieces(partitions(kafka), kafka.bootstrap_servers)
    responding("FetchRequest", After(2, throttled, 5))
    assert told(rows_of(ranges)) == [(offset, None) for offset in (0, 3, 6, 9, 12, 15)]
    assert pauses == [0.7] * 5


def test_a_broker_that_goes_on_throttling_is_said(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch, responding: Callable[[str, Responding], None]
) -> None:
    monkeypatch.setattr(wire.time, "sleep", lambda seconds: None)
    ranges = cluster_pieces(partitions(kafka), kafka.bootstrap_servers)
    responding("FetchRequest", throttled)
    monkeypatch.setattr(wire, "THROTTLED_IN_ALL_S", 5)
    (row,) = rows_of(ranges)
    assert row["problem"] == "unreadable"
    assert "throttles: nothing could be fetched for 6 s" in row["detail"]


@pytest.mark.parametrize(
    "refusal",
    [
        lambda response: SimpleNamespace(results=[SimpleNamespace(error_code=29, configs=[])]),
        lambda response: SimpleNamespace(results=[]),
    ],
    ids=["refused", "nothing"],
)
def test_what_is_not_told_to_be_uncompacted_may_be_compacted(
    kafka: MockKafka, responding: Callable[[str, Responding], None], refusal: Responding
) -> None:
    responding("DescribeConfigsRequest", refusal)
    live = partitions(kafka)
    assert [each.compacted for each in live] == [None]
    assert [each.cleaned_until for each in cluster_pieces(live, kafka.bootstrap_servers)] == [EVERYTHING]


def test_where_compaction_is_not_told_of_the_report_says_so(
    kafka: MockKafka, responding: Callable[[str, Responding], None]
) -> None:
    pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")
    from wirebroker_audit.origin import Cluster

    cluster = Cluster.__new__(Cluster)
    cluster.name, cluster._topics, cluster._access = kafka.bootstrap_servers, ("orders",), wire.PLAINTEXT
    cluster._turns = {}
    cluster.look()
    assert (cluster.bounds, cluster.notices) == ([("orders", 0, 0, -1)], [])
    responding("DescribeConfigsRequest", lambda response: SimpleNamespace(results=[]))
    cluster.look()
    assert cluster.bounds == [("orders", 0, 0, EVERYTHING)]
    (notice,) = cluster.notices
    assert notice.startswith("orders: the broker does not say whether the topic is compacted")


def test_a_leader_that_is_away_is_waited_for_until_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAUSE", 0.0)
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka.produce("orders", value="1")
        client, refresh, asked = Client(kafka.bootstrap_servers), Client.refresh, list[int]()

        def stale(topics: tuple[str, ...]) -> None:
            refresh(client, topics)
            asked.append(1)
            if len(asked) < 3 * wire.ATTEMPTS:
                client._leaders["orders", 0] = "127.0.0.1:1"

        monkeypatch.setattr(client, "refresh", stale)
        records, _ = client.fetch("orders", 0, 0)
        client.close()
    assert bytes(records)
    assert len(asked) == 3 * wire.ATTEMPTS
