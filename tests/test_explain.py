"""`wirebroker explain`: each kind of finding in traces of a broker and of the proxy before it, and none in healthy ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from dialogue import Dialogue, accepted, tagged
from kafkawire.messages.metadata import MetadataRequest
from requesting import plain, produce_request
from wirebroker import MockKafka
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.commands.cli import main
from wirebroker.explain.findings import KINDS, Finding
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.security.clients import tokens
from wirebroker.testing.views import TraceView
from wirebroker.trace.rows import ReplyRow
from wirekit import ask_in_vain, batch, client

NAME = "wirebroker-conformance"
"""The client id of the raw client."""
USERS = {"alice": "secret", "bob": "hidden"}


@dataclass
class Stage:
    """A broker, and a proxy before it."""

    kafka: MockKafka
    proxy: ProxyKafka

    @property
    def traces(self) -> dict[str, TraceView]:
        return {"broker": self.kafka.trace, "proxy": self.proxy.trace}

    def in_both(self, kind: str, *words: str) -> None:
        """Both traces have a first finding of this kind, whose sentence has these words."""
        for name, trace in self.traces.items():
            first = found(trace)[0]
            assert first.kind == kind, (name, first.sentence)
            for word in words:
                assert word in first.sentence, (name, first.sentence)

    def nothing(self) -> None:
        """Neither trace has a finding."""
        for name, trace in self.traces.items():
            assert [each.sentence for each in trace.explain()] == [], name


def found(trace: TraceView) -> list[Finding]:
    findings = trace.explain()
    assert findings, trace.events()[-5:]
    return findings


@pytest.fixture
def staged() -> Iterator[Callable[..., Stage]]:
    with ExitStack() as stack:

        def make(proxy: dict[str, Any] | None = None, **options: Any) -> Stage:
            kafka = stack.enter_context(MockKafka(**{"topics": {"orders": 1}, "trace": "all"} | options))
            upstream = kafka.bootstrap_servers.split(",")[0]
            return Stage(kafka, stack.enter_context(ProxyKafka(upstream=upstream, trace="all", **proxy or {})))

        yield make


def log_in(proxy: ProxyKafka, user: str, password: str, mechanism: str = "PLAIN") -> Connection:
    """A connection that has sent its login, which may have failed."""
    connection = Connection(address_of(proxy.bootstrap_servers), 5)
    connection.request(plain("SaslHandshake", mechanism=mechanism), 1)
    dialogue = tokens(mechanism, user, password)
    token = next(dialogue)
    with suppress(StopIteration):
        while True:
            response = connection.request(plain("SaslAuthenticate", auth_bytes=token), 2)
            token = dialogue.send(response.auth_bytes)
    return connection


# Each kind


def test_a_quota(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.quotas.set(client_id=NAME, producer_byte_rate=20)
    wire = client(stage.proxy)
    for _ in range(2):
        wire.request(produce_request("orders", batch(tag="x" * 500)), 9)
        stage.kafka.clock.advance(minutes=10)
    stage.in_both("throttled", NAME, "producer_byte_rate", "Produce")
    assert "twice" in found(stage.proxy.trace)[0].sentence
    assert all(row.throttle_time_ms > 0 for row in stage.proxy.trace.where("api=Produce throttle_time_ms>0 event=reply"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_login_with_a_wrong_password(staged: Callable[..., Stage], mechanism: str) -> None:
    stage = staged(security="sasl_plaintext", users=USERS)
    log_in(stage.proxy, "alice", "wrong", mechanism)
    stage.in_both("login_failed", "'alice'", mechanism, "once")
    assert "wrong" not in "".join(row.as_json() for row in stage.proxy.trace.events())
    assert "Authentication failed" in found(stage.proxy.trace)[0].sentence


def test_a_mechanism_that_the_listener_lacks(staged: Callable[..., Stage]) -> None:
    stage = staged(security="sasl_plaintext", users=USERS)
    line = Connection(address_of(stage.proxy.bootstrap_servers), 5)
    assert line.request(plain("SaslHandshake", mechanism="GSSAPI"), 1).error_code == 33
    stage.in_both("login_failed", "GSSAPI")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_missing_acl(staged: Callable[..., Stage], mechanism: str) -> None:
    stage = staged(security="sasl_plaintext", users=USERS, acls=["allow User:alice DESCRIBE TOPIC orders"])
    line = log_in(stage.proxy, "alice", "secret", mechanism)
    line.request(produce_request("orders", batch()), 9)
    stage.in_both("denied", "User:alice", "WRITE on TOPIC orders")
    (row,) = stage.proxy.trace.where("principal=User:alice event=reply api=Produce")
    assert isinstance(row, ReplyRow)
    assert row.errors == ("TOPIC_AUTHORIZATION_FAILED",)


def test_a_client_without_tls(staged: Callable[..., Stage]) -> None:
    import ssl

    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(served)
    stage = staged({"client_tls": served}, security="ssl")
    for host, port in (address_of(stage.proxy.bootstrap_servers), address_of(stage.kafka.bootstrap_servers)):
        with closing(Connection((host, port), 5)) as line, suppress(ConnectionClosed, OSError):
            line.request(MetadataRequest(topics=[]), 9)
    stage.in_both("tls_failed", "at 127.0.0.1", "plaintext")


def test_a_version_that_kafka_4_dropped(staged: Callable[..., Stage]) -> None:
    stage = staged()
    ask_in_vain(stage.proxy, "Produce", 2)
    stage.in_both("unsupported_version", "Produce version 2", "versions 3 to 13 are read")


# Healthy


def test_nothing_is_wrong(staged: Callable[..., Stage]) -> None:
    stage = staged()
    line = Dialogue(stage.proxy)
    for offset in range(20):
        line >> tagged("x") << accepted(at=offset)
    stage.nothing()


# The command


def test_the_command_prints_what_is_wrong(
    staged: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = staged()
    ask_in_vain(stage.proxy, "Produce", 2)
    path, told = tmp_path / "trace.jsonl", tmp_path / "told.json"
    path.write_text("".join(row.as_json() + "\n" for row in stage.proxy.trace.events()), encoding="utf-8")
    assert main(["explain", str(path), "--json", str(told)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("1. unsupported_version: ")
    assert f"wirebroker trace show {path} --where 'event=unsupported api=Produce'" in printed
    (finding,) = json.loads(told.read_text(encoding="utf-8"))["findings"]
    assert finding["kind"] == "unsupported_version"
    assert [row["event"] for row in finding["rows"]] == ["unsupported"]
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[finding["numbers"][0] - 1]) == finding["rows"][0]


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    with MockKafka(topics={"orders": 1}, trace="verdicts") as kafka:
        Dialogue(kafka) >> tagged("x") << accepted(at=0)
        path.write_text("".join(row.as_json() + "\n" for row in kafka.trace.events()), encoding="utf-8")
    assert main(["explain", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("nothing is wrong in 1 rows")
    assert "--trace-level exchanges" in err
    path.write_bytes(b"\xff\xfe not a row\n")
    for wrong in (path, tmp_path / "absent", "http://127.0.0.1:1", "ftp://x"):
        assert main(["explain", str(wrong)]) == 2
        assert str(wrong) in capsys.readouterr().err


def test_a_running_control_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    with MockKafka(topics={"orders": 1}, trace="all", control=True) as kafka:
        assert main(["explain", kafka.control_url]) == 0
        ask_in_vain(kafka, "Produce", 2)
        assert main(["explain", kafka.control_url]) == 1
        out = capsys.readouterr().out
        assert "unsupported_version" in out
        assert f"curl -s '{kafka.control_url}/trace.jsonl?where=event%3Dunsupported" in out
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = "http://{}:{}".format(*nobody.getsockname())
    assert main(["explain", url]) == 2


def test_every_kind_has_a_test() -> None:
    assert len(KINDS) == 15
