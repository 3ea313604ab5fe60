"""Faults of the wire: responses that are divided, truncated, slow or damaged; connection resets; and the reactions of
clients.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from typing import Any

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest
from kafka.errors import CorruptRecordError

from dialogue import CLOSED, SILENCE, Dialogue, accepted, answered, overall, seq, tagged
from kafkawire.errors import ProtocolError
from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.metadata import MetadataRequest
from requesting import produce_request
from responses import only
from wirebroker import faults
from wirebroker.mock import MockKafka
from wirekit import batch, client, dial

pytestmark = pytest.mark.mock_kafka(topics={"orders": 1})


def values(kafka: MockKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("orders")]


def pieces(connection: socket.socket) -> list[bytes]:
    """Returns the pieces of data that arrive until the broker closes the connection or sends nothing for 0.5 s."""
    connection.settimeout(0.5)
    found = []
    try:
        while data := connection.recv(1 << 16):
            found.append(data)
    except TimeoutError:
        pass
    return found


ASK = encode_request(1, "raw", MetadataRequest(topics=None), 9)
ASK_ALL, ANSWERED = MetadataRequest(topics=[]), overall(controller_id=1)


# Answers


def test_a_response_is_cut_and_the_connection_closes(mock_kafka: MockKafka) -> None:
    cut = mock_kafka.faults.add(faults.cut(10, api="Metadata", nth=1))
    with dial(mock_kafka) as connection:
        connection.sendall(ASK)
        assert len(b"".join(pieces(connection))) == 10
    cut.assert_fired(1)
    with dial(mock_kafka) as connection:
        connection.sendall(ASK)
        (size,) = struct.unpack(">i", connection.recv(4))
        assert size > 20


def test_b2_the_retry_of_a_batch_with_a_cut_acknowledgement_is_a_duplicate(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.cut(7, api="Produce", sequence=1, times=1))
    Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(1) << CLOSED >> seq(1) << accepted(at=1)
    assert [row.verdict for row in mock_kafka.trace.produce()] == ["accepted", "accepted", "duplicate"]


def test_a_response_in_pieces_is_whole_and_later_responses_wait(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.slice(5, ms=2, api="Metadata", nth=1))
    with dial(mock_kafka) as connection:
        connection.sendall(ASK)
        whole = b"".join(sliced := pieces(connection))
        connection.sendall(ASK)
        assert b"".join(pieces(connection)) == whole
    assert len(sliced) > len(whole) / 5 / 2, "most pieces arrive in separate reads"
    mock_kafka.faults.clear()
    mock_kafka.faults.add(faults.slice(1, ms=0, nth=1))
    dialogue = Dialogue(mock_kafka) >> ASK_ALL >> ASK_ALL >> ASK_ALL
    dialogue << ANSWERED << ANSWERED << ANSWERED  # the responses arrive one after another, in the order of the requests


def test_later_requests_are_not_handled_before_the_response_is_sent(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.slice(10, ms=600_000, api="Metadata"))
    dialogue, other = Dialogue(mock_kafka) >> ASK_ALL, Dialogue(mock_kafka)
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    dialogue >> tagged("v")
    for _ in range(20):
        other >> (ApiVersionsRequest(), 0) << answered(error_code=0)
    assert values(mock_kafka) == []


def test_bandwidth_is_by_the_machines_time(mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", value=b"v" * 3000)
    mock_kafka.faults.add(faults.bandwidth(20_000, api="Fetch"))
    start = time.monotonic()
    assert len(only(fetch(mock_kafka)).records) > 3000
    assert time.monotonic() - start > 0.08


def fetch(kafka: MockKafka) -> Any:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="orders", partitions=[part])], max_bytes=1 << 20)
    return client(kafka).request(asked, 12)


def test_a_corrupt_response_is_damaged_at_the_given_place_or_by_the_seed(mock_kafka_factory: Any) -> None:
    def response(seed: int, **where: Any) -> bytes:
        kafka = mock_kafka_factory(random_seed=seed)
        if where:
            kafka.faults.add(faults.corrupt(api="ApiVersions", **where))
        with dial(kafka) as connection:
            connection.sendall(encode_request(7, "raw", ApiVersionsRequest(), 0))
            (size,) = struct.unpack(">i", head := connection.recv(4, socket.MSG_WAITALL))
            return head + connection.recv(size, socket.MSG_WAITALL)

    def differing(damaged: bytes) -> list[int]:
        return [at for at, (a, b) in enumerate(zip(sound, damaged, strict=True)) if a != b]

    sound = response(1)
    assert differing(response(1, at=5, bytes=2)) == [5, 6]
    assert differing(response(1, at=-1)) == [len(sound) - 1]
    first, second = differing(response(1, bytes=3)), differing(response(2, bytes=3))
    assert len(first) == 3
    assert min(first) >= 4, "the fault does not change the size field"
    assert first == differing(response(1, bytes=3)) != second


def test_damage_goes_no_further_than_the_response(mock_kafka: MockKafka) -> None:
    corrupt = mock_kafka.faults.add(faults.corrupt(10**12, at=0, api="Produce"))
    with pytest.raises(ProtocolError):
        client(mock_kafka).request(produce_request("orders", batch()), 9)
    corrupt.assert_fired(1)


def test_a_wrong_correlation_id_is_noticed(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.corrupt(at=7, api="Metadata"))
    with pytest.raises(ProtocolError, match="correlation id"):
        client(mock_kafka).request(MetadataRequest(topics=[]), 9)


# Connections


def reset_by_peer(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        return connection.recv(1) != b"" and False
    except ConnectionResetError:
        return True


def test_a_reset_before_and_after(mock_kafka: MockKafka) -> None:
    before = mock_kafka.faults.add(faults.reset(api="Metadata", nth=1))
    after = mock_kafka.faults.add(faults.reset(after=True, api="Produce", nth=1))
    with dial(mock_kafka) as connection:
        connection.sendall(ASK)
        assert reset_by_peer(connection)
    with dial(mock_kafka) as connection:
        connection.sendall(encode_request(1, "raw", produce_request("orders", batch()), 9))
        assert reset_by_peer(connection)
    assert values(mock_kafka) == [b"v0"], "the broker handled the Produce before the reset"
    before.assert_fired(1)
    after.assert_fired(1)


def test_a_node_refuses_connections_by_count(mock_kafka_factory: Any) -> None:
    kafka = mock_kafka_factory(brokers=2)
    refused = kafka.faults.add(faults.refuse(node=2, nth=[1, 3]))
    outcomes = []
    for _ in range(4):
        try:
            with dial(kafka, node=1) as connection:
                connection.sendall(ASK)
                outcomes.append(bool(connection.recv(1)))
        except ConnectionError:
            outcomes.append(False)
    assert outcomes == [False, True, False, True]
    assert client(kafka).request(MetadataRequest(topics=[]), 9).brokers[0].node_id == 1
    assert (refused.seen, refused.fired) == (4, 2)
    row = kafka.trace.faults()[0]
    assert (row.node, row.kind, row.api, row.version) == (2, "refuse", "", -1)


def test_a_connection_closes_unasked_after_a_response(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.close(api="Metadata", nth=2))
    Dialogue(mock_kafka) >> ASK_ALL << ANSWERED >> ASK_ALL << ANSWERED << CLOSED


def test_a_connection_closes_some_time_later_by_the_brokers_clock(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.close(ms=60_000, api="Metadata", nth=1))
    dialogue = Dialogue(mock_kafka) >> ASK_ALL << ANSWERED >> ASK_ALL << ANSWERED
    mock_kafka.clock.advance(minutes=1)
    dialogue << CLOSED


# Requests


@pytest.mark.parametrize("size", [100, 600_000], ids=["small", "large"])
def test_a_request_is_cut_while_it_arrives(mock_kafka: MockKafka, size: int) -> None:
    """The broker does not handle the request, and the rule counts the request once. It does not matter whether the client sends
    the rest of the request.
    """
    cut = mock_kafka.faults.add(faults.cut(64, request=True, api="Produce", nth=2))
    data = encode_request(1, "raw", produce_request("orders", batch(tag="v" * size)), 9)
    with dial(mock_kafka) as connection:
        for start in range(0, len(data), 70_000):  # the first request arrives in several parts
            connection.sendall(data[start : start + 70_000])
        assert connection.recv(4)
    with dial(mock_kafka) as connection:
        connection.sendall(data[:80])
        connection.settimeout(5)
        assert connection.recv(1) == b""
    assert (cut.seen, cut.fired, len(values(mock_kafka))) == (2, 1, 1)
    with dial(mock_kafka) as connection:
        connection.sendall(data)
        assert connection.recv(4)
    assert (cut.seen, cut.fired, len(values(mock_kafka))) == (3, 1, 2)


def test_a_whole_request_is_cut_as_well_and_a_shorter_one_is_not(mock_kafka: MockKafka) -> None:
    cut = mock_kafka.faults.add(faults.cut(200, request=True, api="Produce"))
    Dialogue(mock_kafka) >> tagged("v") << accepted(at=0) >> tagged("v" * 200) << CLOSED
    assert (cut.seen, cut.fired, values(mock_kafka)) == (1, 1, [b"v0"])


# Rules that could never match


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: faults.refuse(api="Produce"),
            "refuse has no option 'api'; there are every, name, node, nth, probability, times",
        ),
        (lambda: faults.cut(3, request=True), "bytes must be at least 8, not 3"),
        (lambda: faults.cut(64, request=True, topic="orders"), "only api, version, client_id, node are known, not topic"),
        (lambda: faults.slice(0), "bytes must be a whole number of at least 1, not 0"),
        (lambda: faults.bandwidth(0), "rate must be a whole number of at least 1, not 0"),
        (lambda: faults.corrupt(0), "bytes must be a whole number of at least 1, not 0"),
        (lambda: faults.close(ms=-1), "ms must be a whole number of at least 0, not -1"),
    ],
)
def test_a_rule_that_can_never_match_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_acks_0_has_no_response_for_a_rule_to_match(mock_kafka: MockKafka) -> None:
    rules = [mock_kafka.faults.add(each) for each in (faults.cut(1), faults.lose_ack(), faults.reset(after=True))]
    Dialogue(mock_kafka) >> produce_request("orders", batch(), acks=0)
    mock_kafka.wait_for_records("orders", 1)
    assert [rule.seen for rule in rules] == [0, 0, 0]


def test_later_requests_continue_after_a_delayed_produce_with_acks_0(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.delay(60_000, api="Produce", nth=1))
    dialogue = Dialogue(mock_kafka) >> produce_request("orders", batch(), acks=0)
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    dialogue >> tagged("v") << SILENCE
    mock_kafka.clock.advance(minutes=1)
    dialogue << accepted(at=1)


# Real clients


@pytest.mark.parametrize(
    "fault",
    [
        faults.cut(9, api="Produce", nth=2),
        faults.reset(after=True, api="Produce", nth=2),
        faults.reset(api="Produce", nth=2),
        faults.close(api="Produce", nth=2),
        faults.slice(3, ms=0, api=["Produce", "Metadata", "InitProducerId"]),
        faults.cut(40, request=True, api="Produce", nth=2),
        faults.refuse(nth=2),
        faults.fail_write(nth=2),
        faults.crash_after_write(nth=2),
    ],
    ids=lambda rule: (
        rule.kind
        + ("-after" if getattr(rule, "after", False) else "")
        + ("-request" if getattr(rule, "request", False) else "")
    ),
)
def test_b2_b5_kafka_python_stores_everything_once(mock_kafka: MockKafka, fault: faults.Rule) -> None:
    fault.seen = fault.fired = 0
    mock_kafka.faults.add(fault)
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=mock_kafka.bootstrap_servers, retry_backoff_ms=10, reconnect_backoff_ms=10
    )
    offsets = [producer.send("orders", b"%d" % i, partition=0).get(10).offset for i in range(4)]
    producer.close()
    fault.assert_fired()
    assert offsets == [0, 1, 2, 3]
    assert values(mock_kafka) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    "fault", [faults.reset(after=True, api="Produce", nth=1), faults.crash_after_write(nth=1)], ids=lambda rule: rule.kind
)
def test_b2_b5_confluent_kafka_sends_again_what_was_stored(mock_kafka: MockKafka, fault: faults.Rule) -> None:
    fault.seen = fault.fired = 0
    mock_kafka.faults.add(fault)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": mock_kafka.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 10,
         "reconnect.backoff.ms": 10, "log_level": 0}
    )  # fmt: skip
    producer.produce("orders", b"once", partition=0)
    assert producer.flush(10) == 0
    fault.assert_fired(1)
    assert values(mock_kafka) == [b"once"]
    assert [row.verdict for row in mock_kafka.trace.produce()] == ["accepted", "duplicate"]


def test_b2_aiokafka_recovers_from_a_cut_acknowledgement(mock_kafka: MockKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    cut = mock_kafka.faults.add(faults.cut(5, api="Produce", nth=1))

    async def send() -> int:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=mock_kafka.bootstrap_servers, enable_idempotence=True, retry_backoff_ms=10
        )
        async with producer:
            return int((await producer.send_and_wait("orders", b"once", partition=0)).offset)

    assert asyncio.run(send()) == 0
    cut.assert_fired(1)
    assert values(mock_kafka) == [b"once"]


def test_a_consumer_notices_a_damaged_record(mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", value=b"a pound of tea")
    mock_kafka.faults.add(faults.corrupt(at=-10, api="Fetch", nth=1))
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=mock_kafka.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50
    )
    where = kafka_python.TopicPartition("orders", 0)
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    with pytest.raises(CorruptRecordError):
        consumer.poll(timeout_ms=5000)
    consumer.close()
