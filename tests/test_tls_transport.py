"""The transport of TLS connections: handshakes that arrive in pieces or are not finished, much data in both directions, closed
connections, and damage.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from requesting import fetch, produce_request
from test_tls import ask, context
from wirebroker import MockKafka
from wirebroker.client.wire import address_of
from wirebroker.net import tls_transport
from wirebroker.net.limits import SLICE
from wirebroker.net.thread import LoopThread
from wirebroker.net.tls_transport import HandshakeTurns, TlsTransport
from wirekit import batch, exactly

LONG = 10.0
"""The longest time, in seconds, that a response may take. It is high because the machine may be busy."""
REQUEST = encode_request(7, "test", ApiVersionsRequest(), 0)


@pytest.fixture(params=["asyncio", "uvloop"])
def secured(request: pytest.FixtureRequest) -> Iterator[MockKafka]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    thread = LoopThread(request.param)
    try:
        with MockKafka(security="ssl", topics={"orders": 300}, loop_thread=thread) as kafka:
            yield kafka
    finally:
        thread.stop()


@contextmanager
def connected(kafka: MockKafka) -> Iterator[tuple[ssl.SSLSocket, socket.socket]]:
    """Opens a TLS connection. Yields the connection and its plain socket. Over the socket, a test can send data that is not
    TLS.
    """
    host, port = address_of(kafka.bootstrap_servers)
    plain = socket.create_connection((host, port), LONG)
    with closing(plain.dup()) as raw, context(kafka).wrap_socket(plain, server_hostname=host) as client:
        raw.settimeout(LONG)
        yield client, raw


def test_a_handshake_arrives_byte_by_byte(secured: MockKafka) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(secured).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(address_of(secured.bootstrap_servers), LONG) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send() -> None:
            for each in outgoing.read():
                connection.sendall(bytes([each]))

        def do(step: Any) -> Any:
            while True:
                try:
                    result = step()
                except ssl.SSLWantReadError:
                    send()
                    incoming.write(connection.recv(65536))
                else:
                    send()
                    return result

        do(client.do_handshake)
        client.write(REQUEST)
        assert len(do(lambda: client.read(4))) == 4


def test_requests_are_handled_if_their_client_closes_before_the_last_step_of_the_handshake(
    secured: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS 1.3, a client sends requests together with the end of its handshake. In this test, the client closes the
    connection before the broker handles the end of the handshake."""
    steps, number, eof_received = list[Callable[[], None]](), count(), TlsTransport.eof_received

    def do(_: HandshakeTurns, step: Callable[[], None]) -> None:
        step() if next(number) == 0 else steps.append(step)

    def then_go_on(transport: TlsTransport) -> bool:
        stays = eof_received(transport)
        while steps:
            transport._turns.loop.call_later(0.05, steps.pop())
        return stays

    monkeypatch.setattr(HandshakeTurns, "do", do)
    monkeypatch.setattr(TlsTransport, "eof_received", then_go_on)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(secured).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(address_of(secured.bootstrap_servers), LONG) as connection:
        while "the handshake is not complete":
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
                break
            connection.sendall(outgoing.read())
            incoming.write(connection.recv(65536))
        client.write(encode_request(1, "test", produce_request("orders", batch(), acks=0), 9))
        connection.sendall(outgoing.read())
    secured.wait_for_records("orders", 1)


def test_a_client_that_pipelines_and_reads_later_gets_every_response(secured: MockKafka) -> None:
    requests = 2_000
    with connected(secured) as (client, _):
        for number in range(requests):
            client.sendall(encode_request(number, "test", MetadataRequest(topics=None), 1))
        assert ask(secured, context(secured)), "other clients are not disturbed"
        for number in range(requests):
            size = int.from_bytes(exactly(client, 4), "big")
            assert int.from_bytes(exactly(client, size)[:4], "big") == number


def test_what_arrived_while_a_response_waited_is_read(secured: MockKafka) -> None:
    """While a response waits, the end of a large frame and the beginning of the next request arrive in the same TLS records."""
    waiting = encode_request(1, "test", fetch(wait_ms=600_000), 12)
    large = encode_request(2, "test", MetadataRequest(topics=[MetadataRequestTopic(name=f"{n:0200}") for n in range(1000)]), 4)
    with connected(secured) as (client, _):
        client.sendall(waiting + large + encode_request(3, "test", ApiVersionsRequest(), 0))
        protocols = secured._running.clients
        secured.wait_until(lambda: not all(each.transport.is_reading() for each in protocols.values()))
        secured.produce("orders", value="a pound of tea", partition=0)
        for number in (1, 2, 3):
            size = int.from_bytes(exactly(client, 4), "big")
            assert int.from_bytes(exactly(client, size)[:4], "big") == number


def test_a_client_says_goodbye_and_hears_it(secured: MockKafka) -> None:
    with connected(secured) as (client, _):
        client.sendall(REQUEST)
        exactly(client, int.from_bytes(exactly(client, 4), "big"))
        assert client.unwrap().recv(1) == b""


def test_damage_ends_the_connection_with_an_alert(secured: MockKafka) -> None:
    with connected(secured) as (client, raw):
        client.sendall(REQUEST)
        exactly(client, int.from_bytes(exactly(client, 4), "big"))
        raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
            client.recv(1)
    assert ask(secured, context(secured)), "other clients are not disturbed"


def test_stopping_closes_connections_whose_handshake_is_not_done() -> None:
    kafka = MockKafka(security="ssl")
    kafka.start()
    with socket.create_connection(address_of(kafka.bootstrap_servers), LONG) as waiting:
        waiting.sendall(b"\x16\x03\x01\x00\xc8")
        assert ask(kafka, context(kafka))
        kafka.stop()
        assert waiting.recv(1) == b"", "the broker closes a pending handshake at once"


def test_a_handshake_that_is_not_done_in_time_is_given_up() -> None:
    alarms: list[tuple[float, Callable[[], None]]] = []

    def call_later(seconds: float, then: Callable[[], None]) -> object:
        alarms.append((seconds, then))
        return object()

    loop: Any = SimpleNamespace(call_later=call_later, time=lambda: now)
    now, within = 5.0, tls_transport.HANDSHAKE_WITHIN_S
    turns, aborted = HandshakeTurns(loop), list[str]()

    def begin(name: str) -> TlsTransport:
        made = TlsTransport(None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "SSL", turns)  # type: ignore[arg-type]
        made.connection_made(SimpleNamespace(abort=lambda: aborted.append(name)))  # type: ignore[arg-type]
        return made

    first, done = begin("first"), begin("done")
    now += 20
    later = begin("later")
    turns.over(done)
    now += within - 20
    ((seconds, give_up),) = alarms
    give_up()
    first.connection_lost(None)
    assert (seconds, aborted, list(turns.unfinished)) == (within, ["first"], [later])
    now += 20
    seconds, give_up = alarms[1]
    give_up()
    assert (seconds, aborted) == (20, ["first", "later"])


def test_a_failed_handshake_is_logged_once(secured: MockKafka, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "wirebroker"):
        with socket.create_connection(address_of(secured.bootstrap_servers), LONG) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(200_000))
        secured.wait_until(lambda: any("speaks HTTP" in record.getMessage() for record in caplog.records))
        assert ask(secured, context(secured))
    ours = [record.getMessage() for record in caplog.records if record.name == "wirebroker"]
    assert len(ours) == 1, ours


def test_handshakes_that_begin_together_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(0.0, SLICE / 4)
    monkeypatch.setattr(tls_transport, "perf_counter", lambda: next(ticks))
    soon: list[Callable[[], None]] = []
    loop: Any = SimpleNamespace(call_soon=soon.append)
    turns = HandshakeTurns(loop)
    done: list[int] = []
    for number in range(20):
        turns.do(partial(done.append, number))
    shares = [len(done)]
    while soon:
        soon.pop(0)()
        shares.append(len(done) - sum(shares))
    assert done == list(range(20))
    assert max(shares) <= 5, "four handshakes and the rest of a fifth fit into one turn"
