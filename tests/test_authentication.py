"""SASL: PLAIN and SCRAM, requests that are allowed before authentication, and sessions that expire."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka.admin
import kafka as kafka_python
import pytest

from kafkawire.errors import ErrorCode
from kafkawire.frames import SIZE
from requesting import plain, produce_request
from responses import only
from wirebroker import MockKafka, faults
from wirebroker.client.login import tokens
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.net.listener import Listener
from wirebroker.security import oauthbearer, scram
from wirebroker.security.mechanisms import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, Failure
from wirebroker.security.plain import Plain
from wirebroker.security.protocols import SecurityProtocol
from wirekit import batch

MECHANISMS = [PLAIN, SCRAM_SHA_256, SCRAM_SHA_512]
VERSIONS = plain("ApiVersions", client_software_name="test", client_software_version="1")
USERS = {"alice": "secret", "bob,=": "other"}


@pytest.fixture
def secured() -> Any:
    with MockKafka(security="sasl_plaintext", users=USERS, topics={"orders": 1}) as kafka:
        yield kafka


def dial(kafka: MockKafka) -> Connection:
    return Connection(address_of(kafka.bootstrap_servers), 5)


def log_in(
    connection: Connection, mechanism: str = PLAIN, user: str = "alice", password: str = "secret", version: int = 2
) -> Any:
    """Sends a SaslHandshake and the tokens of a login. Returns the last response."""
    hello = connection.request(plain("SaslHandshake", mechanism=mechanism), 1)
    assert hello.error_code == 0
    dialogue = tokens(mechanism, user, password)
    token = next(dialogue)
    while True:
        response = connection.request(plain("SaslAuthenticate", auth_bytes=token), 2)
        try:
            token = dialogue.send(response.auth_bytes)
        except StopIteration:
            return response


def events(kafka: MockKafka) -> list[tuple[str, str, str]]:
    return [(row.mechanism, row.outcome, row.principal) for row in kafka.trace.events("authentication")]


# Clients


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_producer_logs_in(secured: MockKafka, mechanism: str) -> None:
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=secured.bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
        sasl_plain_username="alice", sasl_plain_password="secret",
    )  # fmt: skip
    assert producer.send("orders", b"a pound of tea").get(10).offset == 0
    producer.close()
    assert set(events(secured)) == {(mechanism, "succeeded", "User:alice")}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_and_is_told_of_a_wrong_password(secured: MockKafka, mechanism: str) -> None:
    settings = {
        "bootstrap.servers": secured.bootstrap_servers, "security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism,
        "sasl.username": "alice", "log_level": 0,
    }  # fmt: skip
    admin = confluent_kafka.admin.AdminClient(settings | {"sasl.password": "secret"})
    assert "orders" in admin.list_topics(timeout=10).topics
    told: list[str] = []
    wrong = confluent_kafka.Producer(
        settings
        | {"sasl.password": "wrong", "error_cb": lambda error: told.append(error.name()), "logger": logging.getLogger("quiet")}
    )
    while "_AUTHENTICATION" not in told:
        wrong.poll(0.05)
    assert (mechanism, "failed", "User:ANONYMOUS") in events(secured)


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in(mechanism: str) -> None:
    async with MockKafka(security="sasl_plaintext", users=USERS, topics={"orders": 1}) as kafka:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
            sasl_plain_username="alice", sasl_plain_password="secret",
        )  # fmt: skip
        async with producer:
            assert (await producer.send_and_wait("orders", b"a pound of tea")).offset == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_name_with_every_sign_that_scram_quotes(secured: MockKafka, mechanism: str) -> None:
    assert log_in(dial(secured), mechanism, "bob,=", "other").error_code == 0


# Refusals


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "hunter2"), ("nobody", "secret")])
def test_wrong_credentials_end_the_connection(
    secured: MockKafka, caplog: pytest.LogCaptureFixture, mechanism: str, user: str, password: str
) -> None:
    other, connection = dial(secured), dial(secured)
    log_in(other)
    with caplog.at_level(logging.INFO, "wirebroker"):
        response = log_in(connection, mechanism, user, password)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionClosed):
            connection.request(VERSIONS, 3)
    assert user not in response.error_message
    lines = [record.getMessage() for record in caplog.records if "authentication failed" in record.getMessage()]
    assert len(lines) == 1
    assert user in lines[0]
    assert password not in lines[0]
    assert other.request(plain("Metadata", topics=[]), 9).brokers


def test_a_token_of_100_mb_closes_the_connection(secured: MockKafka) -> None:
    connection = dial(secured)
    connection.request(plain("SaslHandshake", mechanism=PLAIN), 1)
    connection.send_bytes(SIZE.pack(100_000_000))
    with pytest.raises(ConnectionClosed):
        connection.frame()
    log_in(connection := dial(secured))
    connection.request(produce_request("orders", batch(tag="x" * 600_000)), 9)


@pytest.mark.parametrize("change", [lambda proof: proof[:-8], lambda proof: b"", lambda proof: proof[:-1] + b"AAAA="])
def test_a_scram_proof_of_another_length_closes_the_connection(secured: MockKafka, change: Callable[[bytes], bytes]) -> None:
    connection = dial(secured)
    connection.request(plain("SaslHandshake", mechanism=SCRAM_SHA_256), 1)
    dialogue = tokens(SCRAM_SHA_256, "alice", "secret")
    challenge = connection.request(plain("SaslAuthenticate", auth_bytes=next(dialogue)), 2).auth_bytes
    rest, mark, proof = dialogue.send(bytes(challenge)).partition(b",p=")
    with pytest.raises(ConnectionClosed):
        connection.request(plain("SaslAuthenticate", auth_bytes=rest + mark + change(proof)), 2)


def test_the_final_scram_message_of_another_connection_is_refused(secured: MockKafka) -> None:
    first, second, sent = dial(secured), dial(secured), tokens(SCRAM_SHA_256, "alice", "secret")
    for connection in (first, second):
        connection.request(plain("SaslHandshake", mechanism=SCRAM_SHA_256), 1)
    beginning = next(sent)
    challenge = first.request(plain("SaslAuthenticate", auth_bytes=beginning), 2).auth_bytes
    final = sent.send(bytes(challenge))
    assert first.request(plain("SaslAuthenticate", auth_bytes=final), 2).error_code == ErrorCode.NONE
    second.request(plain("SaslAuthenticate", auth_bytes=beginning), 2)
    response = second.request(plain("SaslAuthenticate", auth_bytes=final), 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert first.request(plain("SaslAuthenticate", auth_bytes=final), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_an_unknown_user_takes_the_time_of_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The duration of compare_digest depends on its second argument. So the second argument must be the client's password."""
    compared: list[bytes] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append(second)
        return False

    monkeypatch.setattr("wirebroker.security.plain.hmac.compare_digest", compare)
    for user in ("alice", "nobody"):
        assert isinstance(Plain({"alice": "secret"}).evaluate(f"\0{user}\0hunter2".encode(), 0), Failure)
    assert compared == [b"hunter2"] * 2


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_SHA_256])
def test_a_long_name_is_cut_in_the_log(secured: MockKafka, caplog: pytest.LogCaptureFixture, mechanism: str) -> None:
    with caplog.at_level(logging.INFO, "wirebroker"):
        response = log_in(dial(secured), mechanism, "a" * 400_000, "secret")
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        secured.wait_until(lambda: any("authentication failed" in record.getMessage() for record in caplog.records))
    assert max(len(record.getMessage()) for record in caplog.records) < 600


# Bare tokens


# Sessions


@pytest.fixture
def short() -> Any:
    with MockKafka(
        security="sasl_plaintext",
        users=USERS,
        topics={"orders": 1},
        configs={"connections.max.reauth.ms": 60_000},
        clock="frozen",
    ) as kafka:
        yield kafka


def test_a_session_without_an_end(secured: MockKafka) -> None:
    connection = dial(secured)
    assert log_in(connection).session_lifetime_ms == 0
    for version in (0, 1):
        assert connection.request(plain("SaslHandshake", mechanism=PLAIN), version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    response = connection.request(plain("SaslAuthenticate", auth_bytes=b""), 2)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert secured._call(lambda engine: {each.interceptor for each in engine.connections}) == {None}


def test_a_session_ends_on_the_brokers_clock(short: MockKafka) -> None:
    connection = dial(short)
    assert log_in(connection).session_lifetime_ms == 60_000
    connection.request(produce_request("orders", batch()), 9)
    short.clock.advance(milliseconds=60_000)
    assert connection.request(produce_request("orders", batch()), 9)
    short.clock.advance(milliseconds=1)
    with pytest.raises(ConnectionClosed):
        connection.request(produce_request("orders", batch()), 9)
    assert events(short)[-1] == (PLAIN, "expired", "User:alice")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_authenticates_again(short: MockKafka, mechanism: str) -> None:
    connection = dial(short)
    log_in(connection, mechanism)
    connection.request(produce_request("orders", batch()), 9)
    for _ in range(3):
        short.clock.advance(minutes=2)
        assert log_in(connection, mechanism).session_lifetime_ms == 60_000
        assert connection.request(produce_request("orders", batch()), 9)
    assert [row.again for row in short.trace.events("authentication")] == [False, True, True, True]


def test_a_client_stays_who_it_is(short: MockKafka) -> None:
    connection = dial(short)
    log_in(connection)
    response = log_in(connection, user="bob,=", password="other")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Cannot change principals during re-authentication from User.alice: User.bob,="


def test_the_response_of_a_failure_waits_on_the_brokers_clock() -> None:
    configs = {"connection.failed.authentication.delay.ms": 100}
    with MockKafka(security="sasl_plaintext", users=USERS, configs=configs, clock="frozen") as kafka:
        connection = dial(kafka)
        connection.request(plain("SaslHandshake", mechanism=PLAIN), 1)
        connection.send(plain("SaslAuthenticate", auth_bytes=b"\0alice\0wrong"), 2)
        kafka.wait_until(lambda: kafka._call(lambda engine: any(each.parked for each in engine.connections)))
        kafka.clock.advance(milliseconds=100)
        assert connection.response().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_options_are_checked() -> None:
    with pytest.raises(ValueError, match="GSSAPI: Kerberos is not served here; there are PLAIN"):
        MockKafka(configs={"sasl.enabled.mechanisms": "PLAIN,GSSAPI"})
    with pytest.raises(ValueError, match="the user 'alice' needs a name and a password"):
        MockKafka(users={"alice": ""})
    assert "secret" not in repr(MockKafka(users=USERS)._options)


# Helpers


@pytest.mark.parametrize("security", ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_SHA_512])
def test_client_settings(security: Any, mechanism: str) -> None:
    with MockKafka(security=security, users=USERS, topics={"orders": 1}, configs={"ssl.client.auth": "requested"}) as kafka:
        producer = kafka_python.KafkaProducer(**kafka.client_settings("kafka-python", mechanism=mechanism))
        producer.send("orders", b"1").get(10)
        producer.close()
        confluent = confluent_kafka.Producer(kafka.client_settings("confluent", mechanism=mechanism))
        confluent.produce("orders", b"2")
        assert confluent.flush(10) == 0

        async def produce() -> None:
            async with aiokafka.AIOKafkaProducer(**kafka.client_settings("aiokafka", mechanism=mechanism)) as producer:
                await producer.send_and_wait("orders", b"3")

        asyncio.run(produce())
        assert {row.value for row in kafka.records("orders")} == {b"1", b"2", b"3"}
        java = kafka.client_settings("java", mechanism=mechanism)
        assert java["security.protocol"] == security.upper()
        assert ("secret" in java.get("sasl.jaas.config", "")) == security.startswith("sasl")
        assert kafka.client_settings("kafkajs")["brokers"] == [kafka.bootstrap_servers]


def test_client_settings_that_cannot_be_made() -> None:
    with MockKafka(security="sasl_plaintext") as kafka, pytest.raises(ValueError, match="there is no user; give users="):
        kafka.client_settings("java")
    with MockKafka(security="sasl_plaintext", users=USERS) as kafka:
        with pytest.raises(ValueError, match="there is no user 'eve'"):
            kafka.client_settings("java", user="eve")
        with pytest.raises(ValueError, match="did you mean 'confluent'"):
            kafka.client_settings("confluentt")


def test_credentials_are_kept_with_the_data(tmp_path: Path) -> None:
    change = {
        "name": "carol",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": hashlib.pbkdf2_hmac("sha256", b"tea", b"salt", 4096),
    }
    alter = plain("AlterUserScramCredentials", upsertions=[change], deletions=[])
    remove = {"name": "alice", "mechanism": 2}
    with MockKafka(security="sasl_plaintext", users=USERS, data=tmp_path / "data") as kafka:
        log_in(connection := dial(kafka))
        assert connection.request(alter, 0).results[0].error_code == 0
        removing = plain("AlterUserScramCredentials", upsertions=[], deletions=[remove])
        assert connection.request(removing, 0).results[0].error_code == 0
    with MockKafka(security="sasl_plaintext", data=tmp_path / "data") as kafka:
        assert log_in(dial(kafka), SCRAM_SHA_256, "carol", "tea").error_code == 0
        assert log_in(dial(kafka), SCRAM_SHA_256, "alice", "secret").error_code == 0
        assert log_in(dial(kafka), SCRAM_SHA_512, "alice", "secret").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert b"tea" not in b"".join(each.read_bytes() for each in (tmp_path / "data").rglob("*") if each.is_file())


# Faults


def test_a_rule_matches_one_principal(secured: MockKafka) -> None:
    rule = secured.faults.add(faults.error(ErrorCode.NOT_LEADER_OR_FOLLOWER, api="Produce", principal="User:alice"))
    alice, bob = dial(secured), dial(secured)
    log_in(alice)
    log_in(bob, user="bob,=", password="other")
    codes = [only(each.request(produce_request("orders", batch()), 9)).error_code for each in (alice, bob, alice)]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    rule.assert_fired(2)


def test_a_session_ends_by_a_rule(secured: MockKafka) -> None:
    secured.faults.add(faults.expire_session(principal="User:alice", api="Produce", nth=2))
    for again in (False, True):
        connection = dial(secured)
        log_in(connection)
        for _ in range(2 if not again else 1):
            connection.request(produce_request("orders", batch()), 9)
        if not again:
            with pytest.raises(ConnectionClosed):
                connection.request(produce_request("orders", batch()), 9)
    assert (PLAIN, "expired", "User:alice") in events(secured)


def another_mechanism(connection: Connection) -> None:
    log_in(connection)
    connection.request(plain("SaslHandshake", mechanism=SCRAM_SHA_256), 1)
    connection.send(plain("SaslAuthenticate", auth_bytes=b""), 2)


def no_login(connection: Connection) -> None:
    connection.send(produce_request("orders", batch(), acks=0), 9, awaits_response=False)


def wrong_bare_token(connection: Connection) -> None:
    connection.request(plain("SaslHandshake", mechanism=PLAIN), 0)
    token = b"\0alice\0wrong"
    connection.send_bytes(SIZE.pack(len(token)) + token)


@pytest.mark.parametrize("fail", [another_mechanism, no_login, wrong_bare_token])
@pytest.mark.parametrize("delay_ms", [0, 20])
def test_a_failure_without_a_response_closes_the_connection(delay_ms: int, fail: Callable[[Connection], None]) -> None:
    configs = {"connection.failed.authentication.delay.ms": delay_ms, "connections.max.reauth.ms": 60_000}
    with MockKafka(security="sasl_plaintext", users=USERS, topics={"orders": 1}, configs=configs) as kafka:
        connection = dial(kafka)
        fail(connection)
        with pytest.raises(ConnectionClosed):
            connection.frame()


def test_a_client_authenticates_again_after_its_session_was_ended(secured: MockKafka) -> None:
    secured.faults.add(faults.expire_session(api="Metadata", times=1))
    connection = dial(secured)
    log_in(connection)
    connection.request(plain("Metadata", topics=[]), 9)
    assert log_in(connection).error_code == 0
    assert connection.request(plain("Metadata", topics=[]), 9).brokers


# Settings of one listener


def test_a_listener_has_mechanisms_and_sessions_of_its_own() -> None:
    configs = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.other.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "listener.name.other.plain.connections.max.reauth.ms": "5000",
        "listener.name.other.connections.max.reauth.ms": "9000",
    }
    with MockKafka(security="sasl_plaintext", users=USERS, configs=configs) as kafka:
        other = kafka._listen(Listener(1, "127.0.0.1", 0, None, "OTHER", SecurityProtocol.SASL_PLAINTEXT))
        for address, mechanism, lifetime in (
            (address_of(kafka.bootstrap_servers), PLAIN, 0), (other, PLAIN, 5000), (other, SCRAM_SHA_256, 9000),
        ):  # fmt: skip
            assert log_in(Connection(address, 5), mechanism).session_lifetime_ms == lifetime
        refused = dial(kafka).request(plain("SaslHandshake", mechanism=SCRAM_SHA_256), 1)
        assert (refused.error_code, refused.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [PLAIN])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.enabled.mechanisms", "PLAIN,GSSAPI"), ("sasl.enabled.mechanisms", "PLAIN,nonsense"),
        ("connections.max.reauth.ms", "5000"), ("plain.connections.max.reauth.ms", "5000"),
        ("plain.sasl.jaas.config", "nonsense"),
    ],
)  # fmt: skip
def test_clients_log_in_by_the_static_settings(secured: MockKafka, name: str, value: str) -> None:
    """On Kafka 4.4.0, altering these settings has no effect. It has none after a restart either. But a text in place
    of a number is refused (test_configs)."""
    config = {"name": f"listener.name.sasl_plaintext.{name}", "config_operation": 0, "value": value}
    resource = {"resource_type": 4, "resource_name": "1", "configs": [config]}
    admin = dial(secured)
    log_in(admin)
    (told,) = admin.request(plain("IncrementalAlterConfigs", resources=[resource]), 1).responses
    assert told.error_code == 0
    for restarts in (False, True):
        if restarts:
            secured.restart()
        assert log_in(dial(secured)).session_lifetime_ms == 0
        for mechanism in ("GSSAPI", "nonsense"):
            refused = dial(secured).request(plain("SaslHandshake", mechanism=mechanism), 1)
            assert (refused.error_code, len(refused.mechanisms)) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, 3)


def test_the_names_of_a_listeners_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="Unknown config name: listener.name.other.sasl.nonsense"):
        MockKafka(configs={"listener.name.other.sasl.nonsense": "x"}).start()
    with pytest.raises(ValueError, match="GSSAPI: Kerberos is not served here"):
        MockKafka(configs={"listener.name.other.sasl.enabled.mechanisms": "GSSAPI"})


# Long tokens


@pytest.mark.parametrize("pattern", [scram.CLIENT_FIRST, oauthbearer.CLIENT_FIRST])
def test_a_long_name_that_leads_nowhere_is_read_once(pattern: re.Pattern[str]) -> None:
    begun = time.thread_time()
    assert pattern.fullmatch(f"n,a={'x' * (8 << 20)}") is None
    assert time.thread_time() - begun < 0.3, "an earlier pattern needed 1.2 s because it retried from every character"
