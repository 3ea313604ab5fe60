"""SASL OAUTHBEARER: tokens that are accepted or refused as in the recording of a real Kafka, and the sources of keys."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import aiokafka
import confluent_kafka
import jwt
import kafka as kafka_python
import pytest

from kafkawire.errors import ErrorCode
from oauth_tokens import BROKERS, RECORDED, first, key_set, part, play, signed, unsecured
from requesting import plain
from wirebroker import MockKafka
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.security.mechanisms import OAUTHBEARER
from wirebroker.security.web_tokens import Disbelieved, KeySet, SignedTokens

URL = "sasl.oauthbearer.jwks.endpoint.url"
PREFIX = "listener.name.sasl_plaintext.oauthbearer"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def taking_tokens(configs: dict[str, str], **options: Any) -> MockKafka:
    """Returns a broker that accepts OAUTHBEARER."""
    enabled = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
    return MockKafka(security="sasl_plaintext", users={"alice": "secret"}, configs=enabled | configs, **options)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_text(key_set())
    return path


@pytest.mark.parametrize("name", BROKERS)
def test_every_token_gets_kafkas_response(name: str, keys: Path) -> None:
    recorded = json.loads(Path(__file__).with_name("data").joinpath(RECORDED).read_text(encoding="utf-8"))
    validation = BROKERS[name]
    options = "".join(f' unsecuredValidator{option}="{value}"' for option, value in validation.options.items())
    configs = {f"{PREFIX}.sasl.jaas.config": f"{LOGIN}{options};"} | ({URL: keys.as_uri()} if validation.signed else {})
    with taking_tokens(configs | dict(validation.settings), clock="frozen") as kafka:
        played = list(play(name, address_of(kafka.bootstrap_servers), kafka.clock.now()))
    theirs = [each for each in recorded if each[0].startswith(f"{name}: ")]
    assert [each for each in zip(theirs, played, strict=True) if each[0] != each[1]] == []


# Clients


@pytest.fixture
def broker() -> Iterator[MockKafka]:
    with taking_tokens({}, topics={"orders": 1}) as kafka:
        yield kafka


def outcomes(kafka: MockKafka) -> set[tuple[str, str, str]]:
    return {(row.mechanism, row.outcome, row.principal) for row in kafka.trace.events("authentication")}


def test_clients_log_in_by_unsecured_tokens(broker: MockKafka) -> None:
    producer = kafka_python.KafkaProducer(**broker.client_settings("kafka-python", "alice", OAUTHBEARER))
    producer.send("orders", b"1").get(10)
    producer.close()
    confluent = confluent_kafka.Producer(broker.client_settings("confluent", "bob", OAUTHBEARER))
    confluent.produce("orders", b"2")
    assert confluent.flush(10) == 0

    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(**broker.client_settings("aiokafka", "carol", OAUTHBEARER)) as producer:
            await producer.send_and_wait("orders", b"3")

    asyncio.run(produce())
    assert {row.value for row in broker.records("orders")} == {b"1", b"2", b"3"}
    assert outcomes(broker) == {(OAUTHBEARER, "succeeded", f"User:{name}") for name in ("alice", "bob", "carol")}


def test_settings_for_clients_in_other_languages(broker: MockKafka) -> None:
    assert 'unsecuredLoginStringClaim_sub="alice"' in broker.client_settings("java", "alice", OAUTHBEARER)["sasl.jaas.config"]
    for library, place in (("kafkajs", "sasl"), ("franz-go", None)):
        settings = broker.client_settings(library, "alice", OAUTHBEARER)
        token = (settings[place] if place else settings)["token"]
        assert jwt.decode(token, options={"verify_signature": False})["sub"] == "alice"


def test_no_settings_for_tokens_that_are_off_or_signed(keys: Path) -> None:
    with MockKafka(security="sasl_plaintext") as kafka, pytest.raises(ValueError, match="name OAUTHBEARER in sasl.enabled"):
        kafka.client_settings("java", "alice", OAUTHBEARER)
    with taking_tokens({URL: keys.as_uri()}) as kafka, pytest.raises(ValueError, match="must be signed by a key in"):
        kafka.client_settings("java", "alice", OAUTHBEARER)


# Sessions


def log_in(connection: Connection, token: str) -> Any:
    assert connection.request(plain("SaslHandshake", mechanism=OAUTHBEARER), 1).error_code == 0
    return connection.request(plain("SaslAuthenticate", auth_bytes=first(token)), 2)


def test_a_session_lasts_as_long_as_its_token() -> None:
    with taking_tokens({}, clock="frozen") as kafka, closing(Connection(address_of(kafka.bootstrap_servers), 10)) as client:
        assert log_in(client, kafka._token("alice")).session_lifetime_ms == 3_600_000
        kafka.clock.advance(minutes=59)
        assert log_in(client, kafka._token("alice")).session_lifetime_ms == 3_600_000
        kafka.clock.advance(minutes=60)
        assert client.request(plain("Metadata", topics=[]), 9).brokers
        kafka.clock.advance(milliseconds=1)
        with pytest.raises(ConnectionClosed):
            client.request(plain("Metadata", topics=[]), 9)
        assert (OAUTHBEARER, "expired", "User:alice") in outcomes(kafka)


def test_a_refused_token_is_one_line_without_the_token(broker: MockKafka, caplog: pytest.LogCaptureFixture) -> None:
    token = unsecured({"sub": "alice", "exp": 5})
    with caplog.at_level(logging.INFO, "wirebroker"), closing(Connection(address_of(broker.bootstrap_servers), 10)) as client:
        assert b"invalid_token" in bytes(log_in(client, token).auth_bytes)
        assert client.request(plain("SaslAuthenticate", auth_bytes=b"\1"), 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionClosed):
            client.request(plain("Metadata", topics=[]), 9)
    lines = [record.getMessage() for record in caplog.records if "authentication failed" in record.getMessage()]
    assert len(lines) == 1
    assert "it has expired, by the broker's clock" in lines[0]
    assert token not in caplog.text


# Sources of keys


def test_a_changed_file_counts_from_the_next_login_on(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"keys": []}')
    with taking_tokens({URL: path.as_uri()}) as kafka:
        now = kafka.clock.now() // 1000
        token = signed({"sub": "alice", "exp": now + 60, "iat": now}, "rsa", "RS256")

        def lifetime() -> int:
            with closing(Connection(address_of(kafka.bootstrap_servers), 10)) as client:
                found: int = log_in(client, token).session_lifetime_ms
                return found

        assert lifetime() == 0
        path.write_text("half a key set")
        assert lifetime() == 0
        path.write_text(key_set())
        assert lifetime() > 0
        path.unlink()
        assert lifetime() > 0


class Issuer:
    """An HTTP server that serves a key set."""

    def __init__(self) -> None:
        self.body, self.asked = b'{"keys": []}', 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_an_address_is_asked_again_for_a_missing_key_once_a_minute() -> None:
    with closing(Issuer()) as issuer, taking_tokens({URL: issuer.url}) as kafka:
        now = kafka.clock.now() // 1000
        token = signed({"sub": "alice", "exp": now + 60, "iat": now}, "ec", "ES256")

        def succeeds() -> bool:
            with closing(Connection(address_of(kafka.bootstrap_servers), 10)) as client:
                return bool(log_in(client, token).session_lifetime_ms)

        assert issuer.asked == 1
        issuer.body = key_set().encode()
        assert not succeeds()
        kafka.wait_until(succeeds, timeout=10)
        assert issuer.asked == 2


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///nowhere/keys.json", "No such file"), ("ftp://x/keys", "does not begin with http://"),
        ("http://127.0.0.1:1/keys", "cannot be read"),
        ("http://127.0.0.1:x/keys", "cannot be read"),
    ],
)  # fmt: skip
def test_keys_that_cannot_be_read_stop_the_start(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem), taking_tokens({URL: url}):
        pass


def test_what_is_not_a_key_set(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for text in ("", "[]", "{}", '{"keys": 1}', '{"keys": ["EC"]}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"{URL}: the key set at .* cannot be read"), taking_tokens({URL: path.as_uri()}):
            pass


@pytest.mark.parametrize(("algorithm", "kty"), [("HS256", "oct"), ("RS256", "RSA"), ("ES256", "EC")])
def test_a_key_that_lacks_its_value_fits_no_token(algorithm: str, kty: str) -> None:
    tokens = SignedTokens(lambda: KeySet(json.dumps({"keys": [{"kty": kty, "kid": "a"}]})), lambda key_id: None)
    told = tokens.check(f"{part({'alg': algorithm, 'kid': 'a'})}.{part({})}.AAAA", 0)
    assert isinstance(told, Disbelieved)
    assert "key" in told.cause


@pytest.mark.parametrize("option", ['AllowableClockSkewMs="-1"', 'AllowableClockSkewMs="soon"', 'RequiredScope="a \\"b"'])
def test_wrong_options_of_the_login_module(option: str) -> None:
    with pytest.raises(ValueError, match="sasl.jaas.config: unsecuredValidator"):
        taking_tokens({f"{PREFIX}.sasl.jaas.config": f"{LOGIN} unsecuredValidator{option};"})


def test_a_setting_of_another_listener_does_not_count() -> None:
    login = f'{LOGIN} unsecuredValidatorPrincipalClaimName="name";'
    kafka = taking_tokens({"listener.name.other.oauthbearer.sasl.jaas.config": login})
    with kafka, closing(Connection(address_of(kafka.bootstrap_servers), 10)) as client:
        assert log_in(client, kafka._token("alice")).session_lifetime_ms > 0
