"""Delegation tokens (KIP-48). The responses in random dialogues about tokens, logins and ACLs are compared with a real Kafka's
recorded responses.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acl_requests import SETTINGS, USERS, log_in
from kafkawire.errors import ErrorCode
from requesting import plain, produce_request
from security_dialogues import RECORDED, SECRET, Talk
from wirebroker import MockKafka
from wirebroker.client.brokers import Brokers
from wirebroker.client.login import LoginFailed, tokens
from wirebroker.client.settings import Access
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.net.listener import Listener
from wirebroker.security.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from wirekit import batch

RECORDING: dict[str, Any] = json.loads(Path(__file__).with_name("data").joinpath(RECORDED).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[MockKafka, tuple[str, int]]]:
    access = {"security": "sasl_plaintext", "users": USERS, "configs": SETTINGS | SECRET}
    with MockKafka(profile="kafka-4.3", topics=["seen", "hidden"], clock="frozen", **access) as kafka:
        yield kafka, kafka._listen(Listener(1, "127.0.0.1"))


@pytest.mark.parametrize("seed", RECORDING)
def test_a_random_dialogue_gets_kafkas_responses(seed: str, secured: tuple[MockKafka, tuple[str, int]]) -> None:
    kafka, plaintext = secured
    talk = Talk(int(seed), address_of(kafka.bootstrap_servers), plaintext, kafka.clock.now, lambda _: None)
    for theirs, ours in zip(RECORDING[seed], talk.play(), strict=True):
        assert json.loads(json.dumps(ours)) == theirs


# Tokens


def broker(**options: Any) -> MockKafka:
    configs = SECRET | options.pop("configs", {})
    return MockKafka(security="sasl_plaintext", users=USERS, configs=configs, clock="frozen", **options)


def log_in_by(kafka: MockKafka, token: Any, mechanism: str = SCRAM_SHA_256) -> tuple[Connection, Any]:
    """Tries to log in with a token. Returns the connection and the last response."""
    connection = Connection(address_of(kafka.bootstrap_servers), 10)
    connection.request(plain("SaslHandshake", mechanism=mechanism), 1)
    dialogue = tokens(mechanism, token.token_id, b64encode(bytes(token.hmac)).decode(), ",tokenauth=true")
    sent = next(dialogue)
    while True:
        response = connection.request(plain("SaslAuthenticate", auth_bytes=sent), 2)
        try:
            sent = dialogue.send(bytes(response.auth_bytes))
        except StopIteration:
            return connection, response


def create(kafka: MockKafka, lives_ms: int = -1) -> Any:
    admin = log_in(address_of(kafka.bootstrap_servers), "admin")
    return admin.request(plain("CreateDelegationToken", renewers=[], max_lifetime_ms=lives_ms), 3)


def test_our_own_client_logs_in_with_a_token() -> None:
    with broker() as kafka:
        token = create(kafka)
        password = b64encode(bytes(token.hmac)).decode()
        access = Access("SASL_PLAINTEXT", SCRAM_SHA_256, token.token_id, password, by_token=True)
        Brokers(access, 10).connect(kafka.bootstrap_servers).close()
        with pytest.raises(LoginFailed):
            Brokers(replace(access, by_token=False), 10).connect(kafka.bootstrap_servers)


def described(kafka: MockKafka) -> list[Any]:
    admin = log_in(address_of(kafka.bootstrap_servers), "admin")
    found: list[Any] = admin.request(plain("DescribeDelegationToken", owners=None), 3).tokens
    return found


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_client_is_the_owner_of_its_token(mechanism: str) -> None:
    with broker(topics={"orders": 1}) as kafka:
        connection, response = log_in_by(kafka, create(kafka), mechanism)
        assert response.session_lifetime_ms == int(SECRET["delegation.token.expiry.time.ms"])
        connection.request(produce_request("orders", batch()), 9)
        assert kafka.trace.events("authentication")[-1].principal == "User:admin"


def test_a_session_ends_with_its_token_and_an_expired_token_is_removed() -> None:
    with broker(configs={"delegation.token.expiry.check.interval.ms": 600_000}) as kafka:
        token = create(kafka, 300_000)
        connection, response = log_in_by(kafka, token)
        assert response.session_lifetime_ms == 300_000
        kafka.clock.advance(milliseconds=300_001)
        with pytest.raises(ConnectionClosed):
            connection.request(produce_request("orders", batch()), 9)
        _, response = log_in_by(kafka, token)
        assert (response.error_code, response.session_lifetime_ms) == (0, 0), "an expired token is accepted until its removal"
        kafka.clock.advance(milliseconds=300_000)
        assert described(kafka) == []
        assert log_in_by(kafka, token)[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_that_is_renewed_for_no_time_has_expired_with_zookeeper() -> None:
    with broker(profile="kafka-2.8") as kafka:
        admin = log_in(address_of(kafka.bootstrap_servers), "admin")
        token = admin.request(plain("CreateDelegationToken", renewers=[], max_lifetime_ms=-1), 2)
        renewals = [plain("RenewDelegationToken", hmac=bytes(token.hmac), renew_period_ms=ms) for ms in (0, 60_000)]
        codes = [admin.request(each, 2).error_code for each in renewals]
    assert codes == [ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_EXPIRED]


def test_tokens_are_kept_without_their_secrets(tmp_path: Path) -> None:
    with broker(data=tmp_path) as kafka:
        token, gone = create(kafka), create(kafka)
        admin = log_in(address_of(kafka.bootstrap_servers), "admin")
        admin.request(plain("RenewDelegationToken", hmac=token.hmac, renew_period_ms=60_000), 2)
        admin.request(plain("ExpireDelegationToken", hmac=gone.hmac, expiry_time_period_ms=-1), 2)
        before = described(kafka)
        assert [each.token_id for each in before] == [token.token_id]
    with broker(data=tmp_path) as kafka:
        assert described(kafka) == before
        assert log_in_by(kafka, token)[1].error_code == 0
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(token.token_id.encode() in each for each in files)
    assert not any(bytes(token.hmac) in each or b64encode(bytes(token.hmac)) in each for each in files)


def test_a_capture_has_no_secret_of_a_token(tmp_path: Path) -> None:
    with broker(capture=tmp_path / "session.pcapng", trace="all") as kafka:
        token = create(kafka)
        described(kafka)
    captured = (tmp_path / "session.pcapng").read_bytes()
    assert token.token_id.encode() in captured
    assert bytes(token.hmac) not in captured


def test_a_low_metadata_version_allows_neither_tokens_nor_scram_credentials() -> None:
    """The responses are those of Kafka 4.4.0 with metadata.version 7, 11 and 14."""
    with MockKafka(security="sasl_plaintext", users=USERS, configs=SECRET, profile="kafka-3.4") as kafka:
        kafka.upgrade("kafka-4.4", finalize=False)
        admin = log_in(address_of(kafka.bootstrap_servers), "admin")
        few = {"name": "few", "mechanism": 1, "iterations": 1, "salt": b"s", "salted_password": b"p"}
        users = plain("AlterUserScramCredentials", upsertions=[few, few], deletions=[{"name": "", "mechanism": 9}])
        no_scram = (35, "The current metadata.version does not support SCRAM")
        for level, told in (
            (8, [("", *no_scram), ("few", *no_scram)]),
            (11, [("", 93, "Username must not be empty"), ("few", 93, "Too few iterations")]),
        ):
            kafka._call(lambda engine, level=level: engine.alter_features({"metadata.version": level}))
            results = admin.request(users, 0).results
            assert [(each.user, each.error_code, each.error_message) for each in results] == told
            created = create(kafka)
            assert (created.error_code, created.issue_timestamp_ms, bytes(created.hmac)) == (35, 0, b"")
            for api in ("RenewDelegationToken", "ExpireDelegationToken"):
                response = admin.request(plain(api, hmac=b"x"), 2)
                assert (response.error_code, response.expiry_timestamp_ms) == (35, 0)
            described = admin.request(plain("DescribeDelegationToken", owners=None), 3)
            assert (described.error_code, described.tokens) == (0, [])
        kafka._call(lambda engine: engine.alter_features({"metadata.version": 14}))
        assert create(kafka).error_code == 0


def test_without_a_secret_key_there_are_no_tokens() -> None:
    with MockKafka(security="sasl_plaintext", users=USERS) as kafka:
        assert create(kafka).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        admin = log_in(address_of(kafka.bootstrap_servers), "admin")
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert admin.request(plain("RenewDelegationToken", hmac=b"x"), 2).error_code == disabled
        assert admin.request(plain("ExpireDelegationToken", hmac=b"x"), 2).error_code == disabled
        assert admin.request(plain("DescribeDelegationToken", owners=[]), 3).error_code == disabled
