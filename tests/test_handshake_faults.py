"""Faults of TLS and SASL handshakes: handshakes that stall, and certificates that expire because of the broker's clock."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import kafka as kafka_python
import pytest

from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest
from test_tls import ask, context
from wirebroker import MockKafka, faults
from wirebroker.client.wire import Connection, ConnectionClosed, NoResponse, address_of
from wirebroker.faults import FaultError
from wirebroker.net.sockets import AT_ONCE

LONG = 10.0
"""The longest time, in seconds, that a response may take. It is high because the machine may be busy."""
MINUTE = 60_000


@pytest.fixture
def secured() -> Iterator[MockKafka]:
    with MockKafka(security="ssl", topics={"orders": 1}, clock="frozen") as kafka:
        yield kafka


@contextmanager
def greeted(kafka: MockKafka) -> Iterator[socket.socket]:
    """Opens a connection that sends only the first message of its TLS handshake."""
    client = context(kafka).wrap_bio(ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with socket.create_connection(address_of(kafka.bootstrap_servers), LONG) as connection:
        connection.sendall(outgoing.read())
        yield connection


def is_silent(connection: socket.socket) -> bool:
    """Returns true if the broker sends nothing for 0.2 s."""
    connection.settimeout(0.2)
    try:
        return connection.recv(1) is None
    except TimeoutError:
        return True
    finally:
        connection.settimeout(LONG)


def test_a_handshake_stalls_until_its_time_has_come(secured: MockKafka) -> None:
    rule = secured.faults.add(faults.stall_handshake(5000, times=1))
    with greeted(secured) as connection:
        secured.wait_until(lambda: rule.fired == 1)
        secured.clock.advance(milliseconds=4999)
        assert is_silent(connection)
        assert ask(secured, context(secured)), "another connection is served"
        secured.clock.advance(milliseconds=1)
        assert connection.recv(1) == b"\x16", "the broker continues the TLS handshake"
    (row,) = secured.trace.events("fault")
    assert (row.kind, row.connection, row.node) == ("stall_handshake", 0, 1)


def test_a_handshake_stalls_until_the_rule_is_unloaded(secured: MockKafka) -> None:
    rule = secured.faults.add(faults.stall_handshake(listener="SSL"))
    with greeted(secured) as connection:
        secured.wait_until(lambda: rule.fired == 1)
        secured.clock.advance(milliseconds=MINUTE)
        assert is_silent(connection)
        secured.faults.remove(rule)
        assert connection.recv(1) == b"\x16"


def test_a_rule_does_not_remember_the_handshakes_that_it_has_stalled(secured: MockKafka) -> None:
    rule = secured.faults.add(faults.stall_handshake(5000))
    for number in (1, 2, 3):
        with greeted(secured):
            secured.wait_until(lambda number=number: rule.fired == number)  # type: ignore[misc]
    assert secured._call(lambda engine: len(engine.plan._at_unload[rule])) == 1


def test_a_handshake_that_stalls_can_be_given_up(secured: MockKafka) -> None:
    rule = secured.faults.add(faults.stall_handshake(5000))
    with greeted(secured):
        secured.wait_until(lambda: rule.fired == 1)
    secured.clock.advance(milliseconds=5000)
    secured.faults.clear()
    assert ask(secured, context(secured))


@pytest.mark.parametrize("act", [MockKafka.restart, MockKafka.reset], ids=["restart", "reset"])
@pytest.mark.parametrize("ms", [5000, None])
def test_a_handshake_that_stalls_ends_when_the_broker_restarts_or_is_reset(
    secured: MockKafka, act: Callable[[MockKafka], None], ms: int | None
) -> None:
    rule = secured.faults.add(faults.stall_handshake(ms, times=1))
    with greeted(secured) as connection:
        secured.wait_until(lambda: rule.fired == 1)
        act(secured)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    assert ask(secured, context(secured))


def test_rules_for_another_listener_or_node_match_nothing() -> None:
    with MockKafka(brokers=2, security="ssl", topics={"orders": 1}, clock="frozen") as secured:
        rules = [secured.faults.add(faults.stall_handshake(**words)) for words in ({"listener": "SASL_SSL"}, {"node": 2})]
        assert ask(secured, context(secured))
        assert [rule.seen for rule in rules] == [0, 0]


def test_a_certificate_expires_by_the_clock(secured: MockKafka) -> None:
    settings = secured.client_settings("kafka-python")
    producer = kafka_python.KafkaProducer(**settings)
    producer.send("orders", b"before").get(LONG)
    rule = secured.faults.add(faults.expire_certificate(MINUTE))
    assert ask(secured, context(secured))
    secured.clock.advance(milliseconds=MINUTE - 1)
    assert ask(secured, context(secured))
    assert rule.fired == 0
    secured.clock.advance(milliseconds=1)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        ask(secured, context(secured))
    secured.wait_until(lambda: bool(secured.trace.events("authentication")))
    (row,) = secured.trace.events("authentication")
    assert (row.outcome, row.mechanism, row.listener) == ("failed", "SSL", "SSL")
    assert row.reason == "the client reports that the broker's certificate has expired"
    producer.send("orders", b"over a connection that was made before").get(LONG)
    producer.close()
    secured.faults.remove(rule)
    assert ask(secured, context(secured)), "the certificate is valid again after the rule is removed"


def test_a_certificate_of_the_users_own_cannot_expire(secured: MockKafka) -> None:
    files = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secured.tls_folder / "server.pem")}
    with MockKafka(security="ssl", configs=files) as kafka:
        rule = kafka.faults.add(faults.expire_certificate())
        host, port = address_of(kafka.bootstrap_servers)
        with socket.create_connection((host, port), LONG) as plain:
            context(secured).wrap_socket(plain, server_hostname=host).close()
        with pytest.raises(faults.NotFired, match="did not make the certificate of SSL, so the certificate cannot expire"):
            rule.assert_fired()


def test_an_option_is_refused_in_words() -> None:
    with pytest.raises(FaultError, match="ms"):
        faults.stall_handshake(0)
    with pytest.raises(FaultError, match="listner"):
        faults.stall_handshake(listner="SSL")  # type: ignore[call-arg]


@pytest.fixture
def login() -> Iterator[tuple[MockKafka, Connection]]:
    """A broker with SASL, and a connection that has not logged in."""
    with (
        MockKafka(security="sasl_plaintext", users={"alice": "secret"}, clock="frozen") as kafka,
        closing(Connection(address_of(kafka.bootstrap_servers), LONG)) as client,
    ):
        yield kafka, client


def test_a_login_stalls_by_the_clock(login: tuple[MockKafka, Connection]) -> None:
    kafka, client = login
    rule = kafka.faults.add(faults.delay(5000, api="SaslAuthenticate"))
    client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
    kafka.wait_until(lambda: rule.fired == 1)
    kafka.clock.advance(milliseconds=4999)
    assert kafka.trace.events("authentication") == []
    kafka.clock.advance(milliseconds=1)
    assert client.response().error_code == 0
    assert [row.outcome for row in kafka.trace.events("authentication")] == ["succeeded"]


@pytest.mark.parametrize("api", ["SaslHandshake", "SaslAuthenticate"])
def test_a_client_whose_login_fails_gets_the_delayed_response_before_the_connection_closes(
    login: tuple[MockKafka, Connection], api: str
) -> None:
    kafka, client = login
    rule = kafka.faults.add(faults.delay(5000, after=True, api=api))
    if api == "SaslHandshake":
        client.send(SaslHandshakeRequest(mechanism="OTHER"), 1)
    else:
        client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    kafka.wait_until(lambda: rule.fired == 1)
    kafka.clock.advance(milliseconds=5000)
    assert client.response().error_code == (33 if api == "SaslHandshake" else 58)
    with pytest.raises(ConnectionClosed):
        client.response()


def test_a_login_stalls_for_ever(login: tuple[MockKafka, Connection]) -> None:
    kafka, client = login
    rule = kafka.faults.add(faults.lose_request(then="silence", api="SaslHandshake"))
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    kafka.wait_until(lambda: rule.fired == 1)
    kafka.clock.advance(minutes=1)
    with pytest.raises(NoResponse):
        client.response(0.2)


def test_a_thousand_clients_can_wait_while_the_broker_is_busy(secured: MockKafka) -> None:
    busy, over = threading.Event(), threading.Event()

    def work(_: object) -> None:
        busy.set()
        over.wait(LONG)

    worker = threading.Thread(target=lambda: secured._call(work))
    worker.start()
    busy.wait(LONG)
    with ExitStack() as clients:
        for _ in range(4 * AT_ONCE):
            clients.enter_context(socket.create_connection(address_of(secured.bootstrap_servers), 0.5))
        over.set()
        worker.join()
    assert ask(secured, context(secured))
