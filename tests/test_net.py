"""Data from the network: valid requests that arrive in pieces of any size, and invalid data."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from kafkawire.declare import Message
from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.metadata import MetadataRequest
from requesting import fetch, list_offsets, produce_request
from responses import only, sole
from wirebroker import faults
from wirebroker.client.wire import ConnectionClosed, WireClient
from wirebroker.faults.rules import Rule
from wirebroker.mock import MockKafka
from wirebroker.net.host import IDLE_CHECKS, Host
from wirebroker.net.listener import Listener
from wirebroker.net.protocol import FIRST_OF_LARGE, BrokerProtocol
from wirebroker.proxy_kafka import ProxyKafka
from wirekit import RawProducer, batch, client, dial


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"orders": 1}) as kafka:
        yield kafka


def closed_by_broker(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def still_serves(kafka: MockKafka) -> None:
    assert client(kafka).request(ApiVersionsRequest(), 0).error_code == 0


GARBAGE = [
    ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS"),
    ("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "speaks HTTP, and"),
    ("http2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "speaks HTTP/2"),
    ("negative_size", b"\xff\xff\xff\xff", "a frame of -1 bytes"),
    ("huge_size", b"\x7f\xff\xff\xff", "socket.request.max.bytes is 104857600"),
    ("unknown_key", struct.pack(">ihhih", 10, 999, 0, 1, -1), "Api999 version 0; this API is not offered"),
    ("unknown_version", struct.pack(">ihhih", 10, 0, 99, 1, -1), "Produce version 99; versions 3 to 13 are offered"),
    ("half_a_header", struct.pack(">ih", 2, 0), "has no header"),
    ("no_body", struct.pack(">ihhih", 10, 0, 9, 1, -1), "cannot be read"),
]


@pytest.mark.parametrize(("raw", "said"), [row[1:] for row in GARBAGE], ids=[row[0] for row in GARBAGE])
def test_garbage_closes_its_connection_with_a_sentence(
    kafka: MockKafka, caplog: pytest.LogCaptureFixture, raw: bytes, said: str
) -> None:
    other = client(kafka)
    other.request(ApiVersionsRequest(), 0)
    with caplog.at_level(logging.INFO, "wirebroker"), dial(kafka) as connection:
        connection.sendall(raw)
        assert closed_by_broker(connection)
    assert said in caplog.text
    assert "error in wirebroker" not in caplog.text
    assert other.request(ApiVersionsRequest(), 0).error_code == 0


def test_an_array_that_announces_a_billion_entries_is_refused(kafka: MockKafka) -> None:
    body = struct.pack(">ihhih", 14, 3, 1, 1, -1) + struct.pack(">i", 1_000_000_000)
    with dial(kafka) as connection:
        connection.sendall(body)
        assert closed_by_broker(connection)
    still_serves(kafka)


def test_a_frame_that_announces_90_mb_takes_no_memory_before_it_arrives(kafka: MockKafka) -> None:
    still_serves(kafka)
    before = psutil.Process().memory_info().rss
    connections = [dial(kafka) for _ in range(20)]
    for connection in connections:
        connection.sendall(struct.pack(">ihhi", 90_000_000, 0, 9, 1) + bytes(1000))
    still_serves(kafka)
    grown = psutil.Process().memory_info().rss - before
    for connection in connections:
        connection.close()
    assert grown < 60 << 20  # 20 × 90 MB were announced


def test_a_thousand_connections_opened_and_dropped(kafka: MockKafka) -> None:
    other = client(kafka)
    for i in range(1000):
        connection = dial(kafka)
        if i % 2:
            connection.sendall(b"\0\0")
        connection.close()
    assert other.request(ApiVersionsRequest(), 0).error_code == 0


def test_a_silent_connection_does_not_disturb_others(kafka: MockKafka) -> None:
    with dial(kafka):
        still_serves(kafka)


def test_requests_are_read_in_any_pieces(kafka: MockKafka) -> None:
    raw = encode_request(1, "x", ApiVersionsRequest(), 0) + encode_request(2, "x", MetadataRequest(topics=None), 1)
    with dial(kafka) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(raw), 3):
            connection.sendall(raw[i : i + 3])
        connection.settimeout(5)
        got = b""
        while got.count(b"orders") < 1:
            got += connection.recv(65536)
    (size,) = struct.unpack_from(">i", got)
    assert struct.unpack_from(">i", got, 4) == (1,)
    assert struct.unpack_from(">i", got, 8 + size) == (2,)


@pytest.mark.parametrize("size", [100_000, 200_000, 400_000, 900_000])
def test_large_batches_arrive_whole(kafka: MockKafka, size: int) -> None:
    wire = client(kafka)
    values = [bytes([i]) * size for i in range(1, 4)]
    for value in values:
        data = batch(tag=value.decode("latin1"))
        wire.send(produce_request("orders", data), 9)
    for i in range(3):
        assert only(wire.response()).base_offset == i
    assert [record.value for record in kafka.records("orders")] == [v.decode("latin1").encode() + b"0" for v in values]


def test_of_one_large_batch_after_the_other_only_the_first_bytes_are_copied(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, carry = [], BrokerProtocol._carry

    def noted(protocol: BrokerProtocol, data: memoryview, pos: int, end: int) -> None:
        carry(protocol, data, pos, end)
        copied.append(end - pos)

    monkeypatch.setattr(BrokerProtocol, "_carry", noted)
    wire = client(kafka)
    for i in range(3):
        wire.send(produce_request("orders", batch(tag="v" * 1_000_000)), 9)
        assert only(wire.response()).base_offset == i
    assert client(kafka).request(ApiVersionsRequest(), 0).error_code == 0
    assert len(copied) == 3
    assert max(copied[1:]) <= FIRST_OF_LARGE


def test_a_slow_reader_is_not_buffered_without_bound(kafka: MockKafka) -> None:
    for _ in range(40):
        client(kafka).request(produce_request("orders", batch(tag="x" * 500_000)), 9)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=50 << 20, session_epoch=-1, forgotten_topics_data=[],
        topics=[FetchTopic(topic="orders", partitions=[partition])],
    )  # fmt: skip
    before = psutil.Process().memory_info().rss
    wire = client(kafka)
    for _ in range(300):
        wire.send(asked, 11)
    still_serves(kafka)
    assert psutil.Process().memory_info().rss - before < 60 << 20  # the client requested 300 MB
    assert wire.response().error_code == 0


def test_a_parked_fetch_holds_back_its_own_connection_only(kafka: MockKafka) -> None:
    waiting, other = client(kafka), client(kafka)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="orders", partitions=[partition])
    fetch = FetchRequest(
        max_wait_ms=30_000, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic], forgotten_topics_data=[]
    )
    waiting.send(fetch, 11)
    waiting.send(ApiVersionsRequest(), 0)
    other.request(produce_request("orders", batch(count=2)), 9)
    first = waiting.response()
    assert only(first).high_watermark == 2
    assert waiting.response().error_code == 0


def test_a18_acks_0_has_no_response_and_an_error_closes_the_connection(kafka: MockKafka) -> None:
    producer = RawProducer(kafka)
    good = produce_request("orders", batch(0, 1, pid=producer.pid, epoch=0), acks=0)
    producer.wire.send(good, 9, awaits_response=False)
    assert producer.wire.request(ApiVersionsRequest(), 0).error_code == 0
    producer.wire.send(produce_request("orders", batch(7, 1, pid=producer.pid, epoch=0), acks=0), 9, awaits_response=False)
    with pytest.raises(ConnectionClosed):
        producer.wire.request(ApiVersionsRequest(), 0)
    assert len(kafka.records("orders")) == 1


def test_idle_connections_are_closed(kafka: MockKafka) -> None:
    """Kafka 4.4.0 also closes a connection whose request waits for longer than connections.max.idle.ms. So if a client has
    disconnected, its connection is closed, even if a fault never releases the client's request."""
    kafka.faults.add(faults.reorder(9, api="Produce"))
    idle, busy, waiting, gone = client(kafka), client(kafka), client(kafka), dial(kafka)
    for wire in (idle, busy):
        wire.request(ApiVersionsRequest(), 0)
    waiting.send(fetch(wait_ms=30_000), 11)
    with gone:
        gone.sendall(2 * encode_request(1, "raw", SMALL, 9))
        kafka.wait_until(lambda: kafka._call(lambda engine: sum(c.parked is not None for c in engine.connections)) == 2)
    kafka.clock.advance(seconds=20)  # moving the broker's clock does not make a connection idle
    for _ in range(IDLE_CHECKS + 1):
        busy.request(ApiVersionsRequest(), 0)
        kafka._call(lambda _: kafka._running.look_for_idle())
    for wire in (idle, waiting):
        with pytest.raises(ConnectionClosed):
            wire.frame()
    assert busy.request(ApiVersionsRequest(), 0).error_code == 0
    kafka.wait_until(lambda: kafka._call(lambda engine: len(engine.connections)) == 1)


def test_several_brokers_lead_their_share(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    kafka = mock_kafka_factory(brokers=3, topics={"orders": 6})
    wires = [client(kafka, node) for node in range(3)]
    topic = sole(wires[0].request(MetadataRequest(topics=None), 9).topics)
    assert sorted(p.leader_id for p in topic.partitions) == [1, 1, 2, 2, 3, 3]
    for partition in topic.partitions:
        for node, wire in enumerate(wires, 1):
            response = wire.request(produce_request("orders", batch(), partition.partition_index), 12)
            got = only(response)
            if node == partition.leader_id:
                assert got.error_code == 0
            else:
                assert (got.error_code, got.current_leader.leader_id) == (6, partition.leader_id)
                host, port = response.node_endpoints[0].host, response.node_endpoints[0].port
                assert f"{host}:{port}" == kafka.bootstrap_servers.split(",")[partition.leader_id - 1]


def test_no_client_is_served_before_all_brokers_have_an_address(
    mock_kafka_factory: Callable[..., MockKafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an early client would learn that a broker has the host "" and the port −1."""
    early, bind = [], Host._bind

    async def connect_early(host: Host, listener: Listener) -> asyncio.Server:
        server = await bind(host, listener)
        with socket.socket() as connecting:
            early.append(connecting.connect_ex(server.sockets[0].getsockname()))
        return server

    monkeypatch.setattr(Host, "_bind", connect_early)
    kafka = mock_kafka_factory(brokers=3)
    assert early == [errno.ECONNREFUSED] * 3
    told = client(kafka).request(MetadataRequest(topics=[]), 12).brokers
    assert [(each.host, each.port) for each in told] == kafka._ports


def test_the_broker_responds_quickly_after_the_tests_before(kafka: MockKafka) -> None:
    wire: WireClient = client(kafka)
    began = time.perf_counter()
    for _ in range(100):
        wire.request(ApiVersionsRequest(), 0)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("security", ["plaintext", "ssl"])
@pytest.mark.parametrize("through_proxy", [False, True], ids=["broker", "proxy"])
def test_what_a_client_sends_before_it_closes_is_handled(
    monkeypatch: pytest.MonkeyPatch, security: str, through_proxy: bool
) -> None:
    """After each request, the connection's slice is over. So the client closes the connection before the broker handles the
    last request. Kafka 4.4.0 stores all batches, including the batches after a request that waits."""
    monkeypatch.setattr("wirebroker.net.protocol.SLICE", -1)
    waits = encode_request(0, "raw", fetch(300, wait_ms=200), 12)
    silent = b"".join(encode_request(number, "raw", produce_request("orders", batch(), acks=0), 9) for number in range(300))
    with ExitStack() as stack:
        kafka = stack.enter_context(MockKafka(topics={"orders": 1}, security=security))
        tls = ssl.create_default_context(cafile=str(kafka.tls_folder / "ca.pem")) if security == "ssl" else None
        met = stack.enter_context(ProxyKafka(upstream=kafka.bootstrap_servers, upstream_tls=tls)) if through_proxy else kafka
        connection = dial(met) if tls is None or through_proxy else tls.wrap_socket(dial(met), server_hostname="localhost")
        connection.sendall(silent + waits + silent)
        if isinstance(connection, ssl.SSLSocket):
            with suppress(ssl.SSLError):  # a response arrives although the client has sent close_notify
                connection.unwrap()
        connection.close()
        kafka.wait_until(lambda: len(kafka.records("orders")) == 600, timeout=20)


WAITS = fetch(0, wait_ms=100)
LARGE = produce_request("orders", batch(tag="x" * 200_000), acks=1)
SMALL = produce_request("orders", batch(), acks=1)


@pytest.mark.parametrize("through_proxy", [False, True], ids=["broker", "proxy"])
@pytest.mark.parametrize(
    ("first", "version", "rules"),
    [
        (WAITS, 12, [faults.lose_ack(api="Fetch", then="silence")]),
        (WAITS, 12, [faults.lose_ack(api="ListOffsets", then="silence")]),
        (SMALL, 9, [faults.delay(50, nth=1), faults.lose_ack(nth=1, then="silence")]),
        (SMALL, 9, [faults.delay(50, nth=1), faults.lose_ack(api="ListOffsets", then="silence")]),
        (WAITS, 12, [faults.delay(50, api="Fetch"), faults.lose_request(api="Fetch", then="silence")]),
        (LARGE, 9, [faults.delay(50, api="Produce", nth=1)]),
        (LARGE, 9, [faults.delay(50, api="Produce", nth=1, after=True)]),
    ],
)  # fmt: skip
def test_what_is_behind_a_request_that_waited_is_handled_even_if_the_request_gets_no_response(
    first: Message, version: int, rules: list[Rule], through_proxy: bool
) -> None:
    silent = produce_request("orders", batch(tag="behind"), acks=0)
    requests = [(list_offsets(-1), 2), (first, version), (silent, 9), (silent, 9), (silent, 9)]

    def behind() -> int:
        return sum((record.value or b"").startswith(b"behind") for record in kafka.records("orders"))

    with ExitStack() as stack:
        kafka = stack.enter_context(MockKafka(topics={"orders": 1}))
        met = stack.enter_context(ProxyKafka(upstream=kafka.bootstrap_servers)) if through_proxy else kafka
        for rule in rules:
            met.faults.add(rule.copy())
        with dial(met) as connection:
            connection.sendall(b"".join(encode_request(number, "raw", *each) for number, each in enumerate(requests)))
            kafka.wait_until(lambda: behind() == 3, timeout=5)
        kafka.wait_until(lambda: kafka._call(lambda engine: not engine.connections), timeout=5)
