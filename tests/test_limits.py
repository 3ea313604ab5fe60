"""A broker and a proxy each have limits for one client, and limits for all clients together."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from kafkawire.frames import encode_request
from requesting import plain, produce_request
from wirebroker.mock import MockKafka
from wirebroker.net.thread import LoopThread
from wirebroker.proxy_kafka import ProxyKafka
from wirekit import batch, client, dial, has_come

Serving = Callable[..., tuple[MockKafka | ProxyKafka, MockKafka]]
ASK = encode_request(1, "x", plain("ApiVersions"), 0)


@pytest.fixture(params=["broker", "proxy"])
def serving(
    request: pytest.FixtureRequest, mock_kafka_factory: Callable[..., MockKafka], kafka_proxy: Callable[..., ProxyKafka]
) -> Serving:
    """Returns a function. It starts a broker with the given limits; or it starts a broker, and a proxy with these limits. It
    returns two values: the broker or proxy that has the limits, and the broker."""

    def start(**configs: str) -> tuple[MockKafka | ProxyKafka, MockKafka]:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        if request.param == "broker":
            kafka = mock_kafka_factory(topics={"orders": 1}, configs=named)
            return kafka, kafka
        upstream = mock_kafka_factory(topics={"orders": 1})
        return kafka_proxy(upstream=upstream.bootstrap_servers, trace="all", configs=named), upstream

    return start


def arriving(kafka: MockKafka | ProxyKafka) -> int:
    """Returns the number of bytes that are reserved for large requests. These requests have begun to arrive."""
    assert kafka._host is not None
    return sum(kafka._host.limits._arriving.values())


def answered(connection: socket.socket) -> bool:
    """Sends a request. Returns true if a response arrives, and False if the connection is closed."""
    try:
        connection.sendall(ASK)
        return bool(connection.recv(4))
    except ConnectionError:
        return False


def read_all(connection: socket.socket) -> None:
    while connection.recv(1 << 20):
        pass


def test_connections_of_a_client_are_limited(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    kafka, _ = serving(max_connections_per_ip="2")
    with caplog.at_level(logging.INFO, "wirebroker"), dial(kafka) as first, dial(kafka) as second:
        assert answered(first)
        assert answered(second)
        with dial(kafka) as third:
            assert not answered(third)
        first.close()
        kafka.wait_until(lambda: _is_answered(kafka), timeout=10)
    assert "max.connections.per.ip is 2" in caplog.text


def _is_answered(kafka: MockKafka | ProxyKafka) -> bool:
    with dial(kafka) as connection:
        return answered(connection)


def test_an_override_counts_for_its_client(serving: Serving) -> None:
    kafka, _ = serving(max_connections_per_ip="0", max_connections_per_ip_overrides="10.0.0.1:0, 127.0.0.1:1")
    with dial(kafka) as first, dial(kafka) as second:
        assert answered(first)
        assert not answered(second)


def test_a_connection_beyond_max_connections_waits_until_another_ends(serving: Serving) -> None:
    kafka, _ = serving(max_connections="1")
    with dial(kafka) as first, dial(kafka) as second:
        assert answered(first)
        second.sendall(ASK)
        first.sendall(ASK)
        assert first.recv(4)
        assert not has_come(second)
        first.close()
        assert second.recv(4)


@pytest.mark.parametrize("front", ["broker", "proxy"])
def test_a_connection_that_waits_may_have_sent_something_with_uvloop_too(front: str) -> None:
    pytest.importorskip("uvloop")
    thread = LoopThread("uvloop")
    limit = {"max.connections": "1"}
    with ExitStack() as running:
        running.callback(thread.stop)
        kafka: MockKafka | ProxyKafka = MockKafka(loop_thread=thread, configs=limit if front == "broker" else {})
        running.enter_context(kafka)
        if front == "proxy":
            kafka = ProxyKafka(upstream=kafka.bootstrap_servers, loop_thread=thread, configs=limit)
            running.enter_context(kafka)
        with dial(kafka) as first, dial(kafka) as second:
            assert answered(first)
            second.sendall(ASK)
            assert answered(first)
            assert not has_come(second)
            first.close()
            assert second.recv(4)


def test_large_requests_wait_while_too_many_bytes_are_arriving(serving: Serving) -> None:
    kafka, broker = serving(queued_max_request_bytes="200000")
    frame = encode_request(1, "x", produce_request("orders", batch(tag="x" * 300_000)), 9)
    other = client(kafka)
    with dial(kafka) as slow, dial(kafka) as waiting:
        slow.sendall(frame[:-1])
        kafka.wait_until(lambda: arriving(kafka) > 0, timeout=10)
        waiting.sendall(frame)
        assert other.request(plain("ApiVersions"), 0).error_code == 0
        assert arriving(kafka) == len(frame)
        assert not has_come(waiting)
        slow.sendall(frame[-1:])
        for connection in (slow, waiting):
            assert struct.unpack(">i", connection.recv(4))[0] > 0
    kafka.wait_until(lambda: arriving(kafka) == 0, timeout=10)
    assert len(broker.records("orders")) == 2


def test_a_large_request_that_breaks_off_releases_its_bytes(serving: Serving) -> None:
    kafka, broker = serving(queued_max_request_bytes="200000")
    frame = encode_request(1, "x", produce_request("orders", batch(tag="x" * 300_000)), 9)
    with dial(kafka) as slow, dial(kafka) as waiting:
        slow.sendall(frame[:-1])
        kafka.wait_until(lambda: arriving(kafka) > 0, timeout=10)
        waiting.sendall(frame)
        slow.close()
        assert waiting.recv(4)
    assert len(broker.records("orders")) == 1


def test_the_connection_with_most_unread_bytes_is_closed_at_the_limit(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    kafka, broker = serving()
    assert kafka._host is not None
    kafka._host.limits.most_unread = 1 << 20
    for _ in range(40):
        broker.produce("orders", value=bytes(900_000))
    other = client(kafka)
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20}
    fetch = plain("Fetch", max_bytes=50 << 20, topics=[{"topic": "orders", "partitions": [asked]}])
    with caplog.at_level(logging.INFO, "wirebroker"), dial(kafka) as rude:
        rude.sendall(encode_request(1, "x", fetch, 11) * 40)
        kafka.wait_until(lambda: "too much memory" in caplog.text, timeout=10)
        with pytest.raises(ConnectionError):
            read_all(rude)
    assert other.request(plain("ApiVersions"), 0).error_code == 0


def test_a_closed_connection_whose_last_bytes_are_not_read_is_reset_at_the_limit(serving: Serving) -> None:
    kafka, broker = serving()
    host = kafka._host
    assert host is not None
    for _ in range(40):
        broker.produce("orders", value=bytes(900_000))
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20}
    fetch = plain("Fetch", max_bytes=50 << 20, topics=[{"topic": "orders", "partitions": [asked]}])
    with dial(kafka) as rude:
        rude.sendall(encode_request(1, "x", fetch, 11) * 40)
        kafka.wait_until(lambda: bool(host.limits._congested), timeout=10)
        (unread,) = host.limits._congested
        kafka._call(lambda _: host.machine.close(unread.connection, "it is not needed any more"))
        host.limits.most_unread = 1 << 10
        kafka._call(lambda _: host.left_unread(unread))
        with pytest.raises(ConnectionError):
            read_all(rude)
