"""How the audit connects to a secured cluster: client properties, TLS, SASL, and the limit on the rate of its reads. No Spark
here."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from kafkawire.declare import Message
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest
from responses import parts
from wirebroker import MockKafka
from wirebroker.client import java_properties
from wirebroker.client.login import LoginFailed, log_in, tokens
from wirebroker.client.settings import OPTION, Access, BadConfig, read_access
from wirebroker_audit import wire
from wirebroker_audit.wire import Client
from wirekit import RawProducer

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    '  username="au\\\\"dit" password="s3cret; \\\\\\\\ x";'
)
SCRAM = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={JAAS}\n"
PLAIN_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username=a password='b';"


def written(folder: Path, text: str) -> str:
    (folder / "client.properties").write_text(text)
    return str(folder / "client.properties")


def test_java_properties_are_read_as_java_reads_them() -> None:
    text = "# c\n! c\na = 1\nb:2\nc 3\n\\ d\\=e= x\\ty\nf=one, \\\n    two\n\n g\nh=\\u00e9=2\na=9\nlast=x\\"
    assert java_properties.parse(text) == {
        "a": "9", "b": "2", "c": "3", " d=e": "x\ty", "f": "one, two", "g": "", "h": "é=2", "last": "x",
    }  # fmt: skip


def test_a_login_is_read_and_never_shown(tmp_path: Path) -> None:
    access = read_access(written(tmp_path, SCRAM))
    assert (access.mechanism, access.username, access.password) == ("SCRAM-SHA-512", 'au"dit', "s3cret; \\ x")
    assert "s3cret" not in repr(access)
    assert Access.of({OPTION: access.text()}) == access
    assert Access.of({}) == Access()
    assert replace(access, max_rate=8).shared_by(4).max_rate == 2
    plain = read_access(
        written(tmp_path, f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_JAAS}\nretries=3\n")
    )
    assert (plain.mechanism, plain.username, plain.password) == ("PLAIN", "a", "b")


def test_many_partitions_take_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sends each broker one request for all partitions that the broker leads. If the response has an error for a
    partition, the client asks for this partition again.
    """
    with MockKafka(brokers=3, topics={f"t{number}": 40 for number in range(10)}) as kafka:
        kafka.produce("t7", value="x", partition=11)
        kafka.produce("t7", value="y", partition=11)
        client = Client(kafka.bootstrap_servers)
        asked: list[str] = []
        real = client._ask

        def ask(address: str, request: Message) -> object:
            asked.append(type(request).__name__)
            response = real(address, request)
            if asked[-1] == "ListOffsetsRequest" and len(asked) < 9:  # an error in the first response of each leader
                parts(response)[0].error_code = 6
            return response

        monkeypatch.setattr(client, "_ask", ask)
        found = client.partitions()
        client.close()
    assert len(found) == 400
    assert {(each.start, each.end) for each in found} == {(0, 0), (0, 2)}
    assert all(settings["min.insync.replicas"] == "1" for settings in client.settings.values())
    assert Counter(asked)["DescribeConfigsRequest"] == 1
    assert 6 < Counter(asked)["ListOffsetsRequest"] <= 12


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sasl.mechanisms=PLAIN", "Kafka's clients have no setting sasl.mechanisms; did you mean 'sasl.mechanism'?"),
        ("sasl.login.class=a.B", "sasl.login.class is not supported by wirebroker"),
        ("security.protocol=TLS", "security.protocol is TLS, expected one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL", "sasl.mechanism is GSSAPI; wirebroker speaks PLAIN"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=s3cret", "sasl.jaas.config is missing or is not"),
        (SCRAM.replace(".scram.", ".other."), "but SCRAM-SHA-512 needs org"),
        (SCRAM.replace("username=", "user="), "needs username="),
        ("security.protocol=SSL\nssl.truststore.certificates=x", "type is JKS, but ssl.truststore.certificates needs"),
        ("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no", "/no: No such file or directory"),
        ("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=x", "there is no CERTIFICATE"),
        ("ssl.enabled.protocols=TLSv1.1", "ssl.enabled.protocols has TLSv1.1"),
        ("request.timeout.ms=soon", "request.timeout.ms is 'soon'"),
        ("ssl.endpoint.identification.algorithm=none", "it may be https or empty"),
    ],
)
def test_what_is_not_supported_is_refused_with_a_sentence_and_no_password(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadConfig) as refused:
        read_access(path)
    assert str(refused.value).startswith(f"--command-config {path}: ")
    assert words in str(refused.value)
    assert "s3cret" not in str(refused.value)


CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


@pytest.mark.parametrize(
    ("end", "is_proof"),
    [
        (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", True),
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", False),
        (b"", False),
    ],
)
def test_scram_as_in_rfc_7677(end: bytes, is_proof: bool) -> None:
    dialogue = tokens("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert [next(dialogue), dialogue.send(CHALLENGE)] == [b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", PROOF]
    with pytest.raises(StopIteration) as ended:
        dialogue.send(end)
    assert ended.value.value is is_proof


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        ("r={nonce}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not prove"),
        ("r={nonce}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "unsafe number of iterations"),
        ("r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "belongs to another login"),
        ("e=other-error", "not a SCRAM message"),
        ("", "does not prove"),
    ],
)
def test_a_broker_that_cannot_know_the_password_is_not_believed(challenge: str, words: str) -> None:
    sent: list[bytes] = []

    def request(message: Any, version: int) -> Any:
        if isinstance(message, SaslHandshakeRequest):
            return SimpleNamespace(error_code=0)
        sent.append(message.auth_bytes)
        nonce = sent[0].decode().partition("r=")[2]
        answer = challenge.format(nonce=nonce) if len(sent) == 1 else "v=AAAA"
        return SimpleNamespace(error_code=0, auth_bytes=answer.encode(), session_lifetime_ms=0)

    connection: Any = SimpleNamespace(login_version=1, request=request, session_ends=0.0)
    with pytest.raises(LoginFailed, match=words):
        log_in(connection, Access("SASL_PLAINTEXT", "SCRAM-SHA-256", "user", "pencil"))


def test_the_rate_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], []
    monkeypatch.setattr(wire.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(wire.time, "sleep", sleep)
    with MockKafka(topics={"orders": 1}) as kafka:
        RawProducer(kafka).send(0, 99)
        client = Client(kafka.bootstrap_servers, Access(max_rate=1000))
        sizes = [len(client.fetch("orders", 0, 0)[0]) for _ in range(5)]
        client.close()
    assert sum(sizes[:-1]) / 1000 - 1 <= sum(slept) <= sum(sizes) / 1000
