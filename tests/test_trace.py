"""The trace: the events of each level, and the fields of events. An event whose level is too high has no row."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import jsonschema
import kafka as kafka_python
import pytest

import requesting
from dialogue import ANY_RESPONSE, Dialogue, seq
from kafkawire.frames import encode_request
from requesting import plain, produce_request
from responses import only
from wirebroker import faults
from wirebroker.client.wire import ConnectionClosed
from wirebroker.mock import MockKafka
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.trace.layout import line
from wirebroker.trace.levels import LEVELS
from wirebroker.trace.rows import (
    EVENTS,
    AuthenticationRow,
    AuthorizationRow,
    ConnectionRow,
    FeatureRow,
    FetchRow,
    ProduceRow,
    ReplyRow,
    RequestRow,
    Row,
    RunRow,
    ShareRow,
    TelemetryRow,
    TestRow,
    ThrottleRow,
    UpgradeRow,
    row_from_json,
)
from wirebroker.trace.schema import schema
from wirebroker.trace.sinks import MOST_LINES, ConsoleSink
from wirekit import RawProducer, ask_in_vain, batch, client

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOT_LEADER, UNKNOWN_TOPIC = 6, 3


def outcomes(kafka: MockKafka, *events: str) -> list[str]:
    """Returns the outcome of each row. The outcome is the last part of the row's printed line."""
    outcome = re.compile(r" (?:changed|opened|closed|answered|error|fetched|asked) +")
    return [outcome.split(line(row))[-1] for row in kafka.trace.events(*events)]


# Levels


def busy(kafka: MockKafka) -> None:
    """Causes nearly every kind of event that a trace can have."""
    kafka.faults.add(faults.throttle(1, api="Metadata"))
    producer = kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="till")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"a pound of tea", partition=0).get(10)
    producer.commit_transaction()
    producer.close()

    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="team", auto_offset_reset="earliest",
            isolation_level="read_committed",
        )  # fmt: skip
        async with consumer:
            await consumer.getone()

    asyncio.run(consume())
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    admin.create_topics([confluent_kafka.admin.NewTopic("short", 1, 1)])["short"].result(10)
    kafka.produce("orders", value=b"v")
    kafka.truncate("orders", 0, kafka.produce("orders", value=b"v"))
    kafka.clock.advance(days=8)
    kafka.restart()
    kafka.kill_broker(1)
    kafka.start_broker(1)


@pytest.fixture(scope="module")
def everything() -> list[Row]:
    with MockKafka(topics={"orders": 1}, trace="all") as kafka:
        busy(kafka)
        with ProxyKafka(upstream=kafka.bootstrap_servers) as proxy:
            Dialogue(proxy) >> seq(0) << ANY_RESPONSE
            ask_in_vain(proxy, "Fetch", 3)
            authenticated = AuthenticationRow(
                kafka.clock.now(), 1, 7, "", "SASL", "PLAIN", "expired", "User:alice", True, 5, ""
            )
            shared = ShareRow("lock_expired", "g", "orders", 0, 0, 2, "m", "available", 1, time=kafka.clock.now())
            refused = AuthorizationRow(
                kafka.clock.now(), 1, 7, "User:alice", "READ", "TOPIC", "orders", "the resource has no ACL"
            )
            waits = ThrottleRow(
                kafka.clock.now(), 1, 7, "app", "User:alice", "Produce", "request_percentage", "user alice", 5.0, 9
            )
            pushed = TelemetryRow(kafka.clock.now(), 1, 7, "app", "C-puqgyfx4Z4V6JdyiQgBw", False, "zstd", 461)
            level = FeatureRow("group.version", 1, 0, time=kafka.clock.now())
            upgraded = UpgradeRow(1, "4.3", "4.4", time=kafka.clock.now())
            began = RunRow(kafka.clock.now(), "started"), TestRow(kafka.clock.now(), "OrdersTest.retries")
            made = [*began, authenticated, shared, refused, waits, pushed, level, upgraded]
            return kafka.trace.events() + proxy.trace.events("shadow", "unsupported") + made


def test_every_event_happens_and_is_as_its_schema_says(everything: list[Row]) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for row in everything:
        validator.validate(json.loads(row.as_json()))
        assert row_from_json(json.loads(row.as_json())) == row
    assert {row.event for row in everything} == set(EVENTS)


def test_a_field_of_another_event_is_against_the_schema(everything: list[Row]) -> None:
    written = json.loads(next(row for row in everything if row.event == "reply").as_json())
    for wrong in (written | {"verdict": "accepted"}, written | {"latency": "long"}, written | {"event": "nothing"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema())


def test_rows_are_aligned(everything: list[Row]) -> None:
    words = {
        "accepted",
        "fault",
        "opened",
        "closed",
        "asked",
        "answered",
        "error",
        "fetched",
        "changed",
        "outdated",
        "expired",
        "denied",
        "throttled",
        "pushed",
    }
    for row in everything:
        text = line(row)
        if isinstance(row, ProduceRow) or len(text) < 90:
            assert text[78:87].strip() in words, text
        assert "\x1b[" in line(row, colour=True)


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_has_the_events_of_those_before_it(level: str) -> None:
    order = list(LEVELS)
    expected = {event for each in order[: order.index(level) + 1] for event in LEVELS[each]}
    with MockKafka(topics={"orders": 1}, trace=level) as kafka:
        kafka.faults.add(faults.throttle(1, api="Metadata"))
        producer = RawProducer(kafka)
        producer.send(0)
        producer.wire.request(plain("Metadata", topics=[]), 9)
        fetch(producer.wire)
        ask_in_vain(kafka, "Fetch", 3)
        kafka.restart()
        elsewhere = {
            "authentication",
            "authorization",
            "shadow",
            "throttle",
            "telemetry",
            "group",
            "transaction",
            "leader",
            "isr",
            "share",
            "broker",
            "feature",
            "upgrade",
            "retention",
            "run",
            "test",
        }
        assert {row.event for row in kafka.trace.events()} == expected - elsewhere


def test_a_level_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="trace: 'loud' is not one of off, verdicts, changes, exchanges, all"):
        MockKafka(trace="loud")


def test_the_level_may_change_while_a_producer_sends() -> None:
    with MockKafka(topics={"orders": 1}, trace="off") as kafka:
        producer = RawProducer(kafka)
        for sequence in range(3):
            producer.send(sequence)
        assert (kafka.trace.level, kafka.trace.events()) == ("off", [])
        kafka.trace.level = "exchanges"
        producer.send(3)
        producer.send(4)
        assert [row.event for row in kafka.trace.events()] == ["produce", "reply"] * 2
        kafka.trace.level = "verdicts"
        producer.send(5)
        assert [row.event for row in kafka.trace.events()] == ["produce", "reply", "produce", "reply", "produce"]


def test_the_ring_forgets_the_oldest() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka._call(lambda engine: engine.trace.__init__(lambda: 0, 3))  # type: ignore[misc]
        producer = RawProducer(kafka)
        for sequence in range(5):
            producer.send(sequence)
        assert [row.first_sequence for row in kafka.trace.produce()] == [2, 3, 4]


# Exchanges


@pytest.mark.parametrize("failure", [ValueError("no"), MemoryError(), asyncio.CancelledError()])
def test_a_sink_that_fails_is_detached_and_nobody_else_notices(
    mock_kafka: MockKafka, caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    told: list[Row] = []

    def failing(row: Row) -> None:
        raise failure

    mock_kafka.create_topic("orders")
    mock_kafka._call(lambda engine: engine.trace.sinks.extend([failing, told.append]))
    wire = client(mock_kafka)
    for _ in range(2):
        response = wire.request(produce_request("orders", batch()), 9)
        assert only(response).error_code == 0
    assert len(mock_kafka.records("orders")) == 2
    assert told == mock_kafka.trace.produce("orders")
    (warning,) = caplog.messages
    assert re.fullmatch(r"the trace no longer goes to \S+failing \(.*\); the broker goes on without it", warning)


def test_rows_that_the_console_does_not_take_are_counted() -> None:
    read, written = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(written, "w") as stream:
        console = ConsoleSink(stream)
        row = ConnectionRow(0, 1, 1, "opened", "127.0.0.1", "PLAINTEXT", "", "x" * 100)
        count = 2 * MOST_LINES
        for _ in range(count):
            console(row)
        shown = [reader.readline()]
        while not console._lines.empty():
            shown.append(reader.readline())
        console(row)
        console.close()
        stream.close()
        shown += reader
    missing = [text for text in shown if "missing here, because the console did not accept them" in text]
    assert missing
    assert len(shown) - len(missing) + sum(int(text.split()[0]) for text in missing) == count + 1
    assert shown[-1] == shown[0]


def test_long_names_do_not_fill_the_ring(mock_kafka: MockKafka) -> None:
    mock_kafka.create_topic("orders")
    mock_kafka.trace.level = "all"
    wire, name = client(mock_kafka), "n" * 30_000
    software = plain("ApiVersions", client_software_name=name, client_software_version="1")
    for request, version in (
        (software, 3), (produce_request("orders", batch()), 9), (plain("FindCoordinator", key=name, key_type=0), 2),
        (plain("JoinGroup", group_id=name, session_timeout_ms=10_000, protocol_type="t", protocols=[]), 2),
    ):  # fmt: skip
        wire.send_bytes(encode_request(1, name, request, version))
        wire.frame()
    assert max(len(row.as_json()) for row in mock_kafka.trace.events()) < 5_000


def fetch(wire: Any, offset: int = 0, wait: int = 0, partition: int = 0) -> Any:
    wire.send(requesting.fetch(offset, partition=partition, wait_ms=wait), 12)
    return None if wait else wire.response()


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="all", clock="frozen")
def test_a_response_says_how_long_the_request_waited(mock_kafka: MockKafka) -> None:
    wire = client(mock_kafka)
    fetch(wire, wait=700)
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.events("request")))
    mock_kafka.clock.advance(milliseconds=400)
    assert mock_kafka.trace.events("reply") == []
    mock_kafka.produce("orders", value=b"v")
    wire.response()
    (asked,), (response,) = mock_kafka.trace.events("request"), mock_kafka.trace.events("reply")
    assert isinstance(asked, RequestRow)
    assert isinstance(response, ReplyRow)
    assert (response.api, response.about, response.errors) == ("Fetch", ("orders-0",), ())
    assert (asked.correlation_id, asked.about) == (response.correlation_id, response.about)
    mock_kafka.faults.add(faults.delay(300, api="Metadata"))
    wire.send(plain("Metadata", topics=[]), 9)
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    mock_kafka.clock.advance(seconds=1)
    wire.response()
    last = mock_kafka.trace.events("reply")[-1]
    assert isinstance(last, ReplyRow)
    assert last.latency == 300


@pytest.mark.mock_kafka(topics={"orders": 2}, trace="exchanges")
def test_a_response_names_its_errors_and_its_bytes(mock_kafka: MockKafka) -> None:
    wire = client(mock_kafka)
    wire.send(plain("Metadata", topics=[{"name": "nothing"}], allow_auto_topic_creation=False), 9)
    frame = wire.frame()
    (response,) = mock_kafka.trace.events("reply")
    assert isinstance(response, ReplyRow)
    assert (response.errors, response.about, response.bytes) == (("UNKNOWN_TOPIC_OR_PARTITION",), ("nothing",), len(frame) + 4)
    assert outcomes(mock_kafka, "reply") == ["UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="exchanges")
def test_a_response_that_is_lost_has_no_response(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.lose_ack(api="Produce"))
    with pytest.raises(ConnectionClosed):
        client(mock_kafka).request(produce_request("orders", batch()), 9)
    assert [row.event for row in mock_kafka.trace.events("produce", "reply", "fault")] == ["produce", "fault"]


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="exchanges")
def test_each_fetched_partition_is_a_row(mock_kafka: MockKafka) -> None:
    for _ in range(3):
        mock_kafka.produce("orders", value=b"v")
    wire = client(mock_kafka)
    records = [only(fetch(wire, offset=offset)).records for offset in (1, 9)]
    rows = mock_kafka.trace.events("fetch")
    assert [
        (row.topic, row.partition, row.offset, row.bytes, row.high_watermark, row.committed, row.error)
        for row in rows
        if isinstance(row, FetchRow)
    ] == [("orders", 0, 1, len(records[0]), 3, False, "NONE"), ("orders", 0, 9, 0, -1, False, "OFFSET_OUT_OF_RANGE")]


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="changes")
def test_connections_and_why_they_closed(mock_kafka: MockKafka) -> None:
    polite, rude = client(mock_kafka), client(mock_kafka)
    polite.request(plain("Metadata", topics=[]), 9)
    polite.close()
    mock_kafka.wait_until(lambda: len(mock_kafka.trace.events("connection")) == 2)
    rude.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
    mock_kafka.wait_until(lambda: len(mock_kafka.trace.events("connection")) == 4)
    rows = [row for row in mock_kafka.trace.events("connection") if isinstance(row, ConnectionRow)]
    assert [(row.connection, row.change, row.reason) for row in rows] == [
        (1, "opened", ""), (1, "closed", "the client closed it"), (2, "opened", ""),
        (2, "closed", "the client speaks HTTP, and this is a Kafka listener"),
    ]  # fmt: skip


# Changes


@pytest.mark.mock_kafka(topics={"orders": 2}, trace="changes")
def test_producers_come_rise_and_go(mock_kafka: MockKafka) -> None:
    producer = RawProducer(mock_kafka)
    for sequence, epoch in ((0, 0), (1, 0), (1, 0), (0, 1), (7, 1)):
        producer.send(sequence, epoch=epoch)
    mock_kafka.clock.advance(days=2)
    assert outcomes(mock_kafka, "producer") == ["known from now on", "a new epoch", "forgotten"]


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="changes", clock="frozen", configs={"log.retention.ms": 1000})
def test_topics_retention_and_restarts(mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", value=b"v")
    mock_kafka.clock.advance(days=1)
    mock_kafka.truncate("orders", 0, 1)
    mock_kafka.produce("orders", value=b"v")
    mock_kafka.truncate("orders", 0, 1)
    mock_kafka.restart("kill")
    client(mock_kafka).request(plain("DeleteTopics", topics=[{"name": "orders"}], timeout_ms=1000), 6)
    assert outcomes(mock_kafka, "topic", "retention", "leader", "restart") == [
        "created, with 1 partition", "begins at 1 instead of 0", "led by node 1 in epoch 1", "restarted (kill)",
        "deleted, with 1 partition",
    ]  # fmt: skip
    times = [row.time for row in mock_kafka.trace.events("leader", "restart", "topic")]
    assert times[1:] == [mock_kafka.clock.now()] * 3


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="changes")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols(mock_kafka: MockKafka, protocol: str) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": mock_kafka.bootstrap_servers, "group.id": "team", "group.protocol": protocol, "log_level": 0}
    )
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.05)
    consumer.close()
    states = [text.partition(",")[0] for text in outcomes(mock_kafka, "group")]
    assert "Stable" in states or "Reconciling" in states
    assert states[-1] == "Empty"
    assert [state for state, _ in itertools.groupby(states)][-1] == "Empty"


@pytest.mark.mock_kafka(topics={"orders": 1}, trace="changes")
def test_c2_a_transaction_from_its_beginning_to_its_end(mock_kafka: MockKafka) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers, transactional_id="till")
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send("orders", b"v", partition=0).get(10)
        end()
    producer.close()
    mock_kafka.fence("till")
    assert outcomes(mock_kafka, "transaction") == [
        "Empty", "Ongoing with orders-0", "PrepareCommit with orders-0", "CompleteCommit",
        "Ongoing with orders-0", "PrepareAbort with orders-0", "CompleteAbort", "Empty",
    ]  # fmt: skip


# Documentation


def test_the_documentation_has_every_event_and_level() -> None:
    text = (DOCS / "trace.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert {name: re.findall(r"`(\w+)`", shown) for name, shown in rows.items() if name in LEVELS} == {
        level: list(events) for level, events in LEVELS.items()
    }
    text = text.partition("## Events")[2].partition("## A verdict")[0]
    for name, event in EVENTS.items():
        if name not in ("produce", "shadow"):  # the table of verdicts has the fields of these events
            (row,) = re.findall(rf"^\| `{name}` \|.*\| (.*) \|$", text, re.MULTILINE)
            shown = re.findall(r"`(\w+)`", row)
            assert shown == [name for name in event.__struct_fields__ if name != "time"], name


def test_a_batch_without_a_producer_id_has_no_sequences(mock_kafka: MockKafka) -> None:
    """Some clients send the base sequence 0 without a producer id. The trace must not show a sequence."""
    mock_kafka.create_topic("orders")
    for first in (0, -1):
        response = only(client(mock_kafka).request(produce_request("orders", batch(first, 2, pid=-1, epoch=-1)), 9))
        assert response.error_code == 0
    for row in mock_kafka.trace.produce():
        assert (row.producer_id, row.first_sequence, row.last_sequence) == (-1, -1, -1)
        assert re.search(r"no pid +– +2 rec", line(row))
    assert {record.sequence for record in mock_kafka.records("orders")} == {-1}
