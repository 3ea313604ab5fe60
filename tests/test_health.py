"""`wirebroker health` checks plain and secured brokers. It finds the broker's address in flags or in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirebroker import MockKafka
from wirebroker.client.wire import address_of
from wirebroker.commands.cli import main

USERS = {"alice": "a secret"}


@pytest.mark.parametrize("protocol", ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"])
def test_without_flags_it_asks_the_listener_of_its_environment(
    protocol: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with MockKafka(security=protocol, users=USERS if "sasl" in protocol else None) as kafka:
        port = address_of(kafka.bootstrap_servers)[1]
        monkeypatch.setenv("KAFKA_LISTENERS", f"{protocol}://0.0.0.0:{port},CONTROLLER://0.0.0.0:1")
        assert main(["health"]) == 0
        assert f"127.0.0.1:{port} is healthy" in capsys.readouterr().out
    assert main(["health"]) == 1
    assert f"127.0.0.1:{port} is not healthy: Connection refused" in capsys.readouterr().err


def test_it_prefers_a_listener_that_needs_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with MockKafka() as kafka:
        port = address_of(kafka.bootstrap_servers)[1]
        monkeypatch.setenv(
            "WIREBROKER_LISTENER", f"A=SASL_SSL://127.0.0.1:1 B=SSL://127.0.0.1:1 C=PLAINTEXT://127.0.0.1:{port}"
        )
        assert main(["health"]) == 0


def test_a_secured_broker_elsewhere_needs_the_settings_of_a_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MockKafka(security="sasl_ssl", users=USERS) as kafka:
        asked = ["health", "--bootstrap", kafka.bootstrap_servers]
        assert main(asked) == 1
        assert "if this listener has TLS or SASL, --command-config tells how" in capsys.readouterr().err
        settings = tmp_path / "client.properties"
        lines = "".join(f"{name}={value}\n" for name, value in kafka.client_settings("java").items())
        settings.write_text(lines)
        assert main([*asked, "--command-config", str(settings)]) == 0
        assert "is healthy: 1 broker(s)" in capsys.readouterr().out
        settings.write_text(lines.replace(USERS["alice"], "another"))
        assert main([*asked, "--command-config", str(settings)]) == 1
        refused = capsys.readouterr().err
        assert "it refuses the login of alice: Authentication failed" in refused
        assert "another" not in refused


@pytest.mark.parametrize(
    ("environment", "flags", "complaint"),
    [
        ({"KAFKA_LISTENERS": "9092"}, [], "listeners: '9092' is not NAME://host:port"),
        ({}, ["--command-config", "nowhere"], "--command-config nowhere: No such file"),
        ({}, ["--bootstrap", "nowhere"], "'nowhere' is not host:port"),
    ],
)
def test_wrong_settings_end_it_with_a_sentence(
    environment: dict[str, str], flags: list[str], complaint: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["health", *flags]) == 2
    assert complaint in capsys.readouterr().err
