"""The audit connects to a real Kafka with TLS and SASL from `--command-config`. Needs java and Kafka's jars, but not Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from ecosystem.kafka.security import Security
from ecosystem.kafka.server import HOST, KafkaServer
from wirebroker.client.settings import read_access
from wirebroker.commands.cli import main
from wirebroker.mock import MockKafka
from wirebroker_audit.wire import NEEDS_CONFIG, BrokerError, ask
from wirekit import RawProducer, kafka_jars

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TRUST = "ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
LOGIN = "sasl.mechanism={mechanism}\nsasl.jaas.config=org.apache.kafka.common.security.{module} required username=alice "
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    kafka_jars()
    pytest.importorskip("trustme")
    with KafkaServer(security=Security({"alice": "alice-secret"})) as kafka:
        yield kafka


def reach(kafka: KafkaServer, tmp_path: Path, protocol: str, text: str = "") -> str:
    """Connects to the listener for `protocol`. Returns the error's text, or "" after success."""
    path = tmp_path / "client.properties"
    folder = kafka.security.folder
    path.write_text(f"security.protocol={protocol}\n" + text.replace("{ca}", str(folder / "ca.pem")))
    try:
        ask(f"{HOST}:{kafka.addresses[protocol][1]}", access=read_access(str(path)))
    except BrokerError as refused:
        return str(refused)
    return ""


def login(mechanism: str, password: str = "alice-secret") -> str:
    return LOGIN.format(mechanism=mechanism, module=MODULES[mechanism]) + f'password="{password}";\n'


def test_a_real_kafka_takes_our_logins_and_certificates(kafka: KafkaServer, tmp_path: Path) -> None:
    assert reach(kafka, tmp_path, "PLAINTEXT") == ""
    assert reach(kafka, tmp_path, "SSL", TRUST) == ""
    client = kafka.security.folder / "client.pem"
    assert reach(kafka, tmp_path, "SSL", f"{TRUST}ssl.keystore.type=PEM\nssl.keystore.location={client}\n") == ""
    for mechanism in MODULES:
        assert reach(kafka, tmp_path, "SASL_PLAINTEXT", login(mechanism)) == ""
        assert reach(kafka, tmp_path, "SASL_SSL", TRUST + login(mechanism)) == ""


def test_what_a_real_kafka_refuses_is_told_without_the_password(kafka: KafkaServer, tmp_path: Path) -> None:
    for mechanism, why in (
        ("PLAIN", "Invalid username or password"), ("SCRAM-SHA-512", "due to invalid credentials with SASL mechanism"),
    ):  # fmt: skip
        told = reach(kafka, tmp_path, "SASL_PLAINTEXT", login(mechanism, "s3cret"))
        assert "it refuses the login of alice: " in told
        assert why in told
        assert "s3cret" not in told
    assert "certificate verify failed" in reach(kafka, tmp_path, "SSL")
    for protocol in ("SSL", "SASL_PLAINTEXT"):
        with pytest.raises(BrokerError, match=NEEDS_CONFIG):
            ask(f"{HOST}:{kafka.addresses[protocol][1]}")


def test_a_captured_session_is_sent_to_a_secured_kafka(
    kafka: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, settings = tmp_path / "session.pcapng", tmp_path / "client.properties"
    with MockKafka(topics={"orders": 1}, capture=session) as recorded:
        producer = RawProducer(recorded)
        for first, last in ((0, 2), (3, 5), (3, 5), (9, 9)):
            producer.send(first, last)
    arguments = ["replay", str(session), "--bootstrap", f"{HOST}:{kafka.addresses['SASL_SSL'][1]}", "--create-topics"]
    for password, code in (("s3cret", 2), ("alice-secret", 0)):
        trust = TRUST.replace("{ca}", str(kafka.security.folder / "ca.pem"))
        settings.write_text("security.protocol=SASL_SSL\n" + trust + login("SCRAM-SHA-512", password))
        assert main([*arguments, "--command-config", str(settings)]) == code
    printed = capsys.readouterr()
    assert "it refuses the login of alice: " in printed.err
    assert "s3cret" not in printed.err
    assert printed.out == "no difference in errors, offsets and verdicts (1 compared)\n"
