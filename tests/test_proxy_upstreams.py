"""A proxy's upstream cluster: the proxy uses the first reachable address, and reads client settings from a file."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaProducer

from dialogue import CLOSED, Dialogue, accepted, tagged
from kafkawire.messages.metadata import MetadataRequest
from test_jks import settings as stores_of_java
from wirebroker import MockKafka, ProxyKafka
from wirebroker.client.wire import Connection, ConnectionClosed
from wirebroker.commands.cli import main
from wirebroker.faults import FaultError, lose_ack
from wirebroker.net import proxy_host, upstream
from wirebroker.net.listener import is_own
from wirekit import client

settings = stores_of_java


@pytest.fixture
def nobody() -> str:
    """Returns an address on which no program listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return "127.0.0.1:{}".format(*free.getsockname()[1:])


def test_clients_get_the_first_broker_that_can_be_reached(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with MockKafka(brokers=2, topics={"orders": 1}) as kafka:
        one, other = kafka.bootstrap_servers.split(",")
        with ProxyKafka(upstream=f"{nobody}, {one},{other}", trace="all") as proxy:
            for _ in range(2):
                brokers = client(proxy).request(MetadataRequest(topics=None), 12).brokers
            addresses = {f"{each.host}:{each.port}" for each in brokers}
            assert len(addresses) == 2
            assert proxy.bootstrap_servers not in addresses, "the bootstrap address is not the address of one broker"
            assert not addresses & {one, other}
            tried = [text for text in caplog.messages if "cannot be reached" in text]
            assert tried == [f"the broker at {nobody} cannot be reached: Connection refused; the proxy uses {one}"]
            kafka.kill_broker(1)
            with suppress(ConnectionClosed):  # the proxy's port still accepts connections
                client(proxy).request(MetadataRequest(topics=None), 12)
            assert [each.node_id for each in client(proxy).request(MetadataRequest(topics=None), 12).brokers] == [2]
            rows = proxy.trace.where("api=Metadata")
            assert rows[-1].node == 2, "a connection of the first listener belongs to the broker that it has reached"  # type: ignore[attr-defined]


def test_none_of_several_brokers_can_be_reached(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    with ProxyKafka(upstream=f"{nobody},localhost:1") as proxy:
        for _ in range(2):
            Dialogue(proxy) >> tagged("x") << CLOSED
        failed = f"the broker at {nobody} cannot be reached: Connection refused; the broker at localhost:1 cannot be reached"
        assert [text for text in caplog.messages if text.startswith(failed)] == caplog.messages
        assert len(caplog.messages) == 1


def test_one_address_elsewhere_among_several_needs_consent_to_faults() -> None:
    with ProxyKafka(upstream="127.0.0.1:1,192.0.2.1:9092") as proxy, pytest.raises(FaultError, match=r"192\.0\.2\.1"):
        proxy.faults.add(lose_ack())


def test_a_list_of_brokers_with_a_gap_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", "--upstream", "127.0.0.1:9092,,127.0.0.1:9093"]) == 2
    assert capsys.readouterr().err.startswith("wirebroker proxy: --upstream: '' is not host:port")


# --command-config


@contextmanager
def proxy_before(kafka: MockKafka, config: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs `wirebroker proxy` with the file `config` as --command-config. Yields the proxy's address and process."""
    command = [sys.executable, "-m", "wirebroker", "proxy", "--upstream", kafka.bootstrap_servers]
    command += ["--listen", "127.0.0.1:0", "--command-config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[2].rstrip(",")
            assert process.stdout.readline() == "ready\n"
            yield address, process
        finally:
            process.terminate()


def without_time(text: str) -> str:
    return text.split(" ", 2)[2].rstrip()


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("s3cret", "INFO the broker at {} accepts the login in --command-config; clients use their own login"),
        ("wrong", "WARNING the login in --command-config fails at {}: it refuses the login of alice: Authentication failed "
         "during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256; clients use their own login"),
    ],
)  # fmt: skip
def test_settings_of_a_client_reach_a_secured_cluster_and_try_their_login(tmp_path: Path, password: str, said: str) -> None:
    with MockKafka(security="sasl_ssl", users={"alice": "s3cret"}, topics={"orders": 1}) as kafka:
        text = "".join(
            f"{name}={value}\n" for name, value in kafka.client_settings("java").items() if name != "bootstrap.servers"
        )
        (tmp_path / "client.properties").write_text(text.replace('password="s3cret"', f'password="{password}"'))
        with proxy_before(kafka, tmp_path / "client.properties") as (address, process):
            own = kafka.client_settings("kafka-python") | {"bootstrap_servers": address, "security_protocol": "SASL_PLAINTEXT"}
            producer = KafkaProducer(**{name: value for name, value in own.items() if not name.startswith("ssl_")})
            assert producer.send("orders", b"tea").get(timeout=20).offset == 0
            producer.close()
            assert process.stderr is not None
            assert without_time(process.stderr.readline()) == said.format(kafka.bootstrap_servers)


def test_stores_of_java_reach_a_cluster(tmp_path: Path, settings: dict[str, str]) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))
    required = settings | {"ssl.client.auth": "required"}
    with (
        MockKafka(security="ssl", configs=required, topics={"orders": 1}) as kafka,
        proxy_before(kafka, config) as (address, _),
        ProxyKafka(upstream=address) as plain,
    ):
        Dialogue(plain) >> tagged("x") << accepted(at=0)


def test_settings_that_cannot_be_used_stop_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    proxy = ["proxy", "--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--command-config", str(config)]
    for text, flags, said in (
        (None, [], f"wirebroker proxy: --command-config {config}: No such file or directory\n"),
        ("security.protocol=SSL\nssl.truststore.location=/none.jks\n", [], "ssl.truststore.location: /none.jks: No such file"),
        ("security.protocol=SSL\n", ["--upstream-tls-ca", "x"], "--upstream-tls-ca and --command-config both say how to reach"),
    ):
        if text is not None:
            config.write_text(text)
        assert main([*proxy, *flags]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "old.jceks").write_bytes(b"\xce\xce\xce\xce\0\0\0\2")
    config.write_text(f"security.protocol=SSL\nssl.truststore.location={tmp_path / 'old.jceks'}\n")
    assert main(proxy) == 2
    assert "keytool -list -rfc -keystore" in capsys.readouterr().err


# Addresses in responses for which the proxy may listen


def test_a_response_leads_to_no_port_of_the_proxys_own_machine(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MockKafka(brokers=2, topics={"orders": 1}) as kafka:
        one, other = kafka.bootstrap_servers.split(",")
        elsewhere, own = (int(each.rpartition(":")[2]) for each in (one, other))
        monkeypatch.setattr(upstream, "is_own", lambda address: address[1] == own)
        with ProxyKafka(upstream=one) as proxy:
            brokers = {
                each.node_id: (each.host, each.port) for each in client(proxy).request(MetadataRequest(topics=None), 12).brokers
            }
            with pytest.raises(ConnectionClosed):
                Connection(brokers[2]).request(MetadataRequest(topics=None), 12)
            assert f"the broker at {other} cannot be reached: the address is on the proxy's own machine" in caplog.text
            assert Connection(brokers[1]).request(MetadataRequest(topics=None), 12).brokers
        monkeypatch.setattr(upstream, "is_own", lambda address: address[1] in (own, elsewhere))
        with ProxyKafka(upstream=one) as proxy:
            brokers = {
                each.node_id: (each.host, each.port) for each in client(proxy).request(MetadataRequest(topics=None), 12).brokers
            }
            assert Connection(brokers[2]).request(MetadataRequest(topics=None), 12).brokers, (
                "the whole cluster is on this machine"
            )


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("0.0.0.0", True), ("::1", True), ("::ffff:127.0.0.1", True), ("::", True),
        ("192.0.2.1", False), ("2001:db8::1", False),
    ],
)  # fmt: skip
def test_an_address_of_this_machine_is_recognised_in_each_form(address: str, own: bool) -> None:
    assert is_own((address, 9092)) is own


def test_a_proxy_listens_for_a_limited_number_of_brokers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(proxy_host, "MOST_NODES", 2)
    with MockKafka(brokers=3) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers.split(",")[0]) as proxy:
        brokers = client(proxy).request(MetadataRequest(topics=None), 12).brokers
        assert [bool(each.host) for each in brokers].count(False) == 1
        assert "a proxy has listeners for at most" in caplog.text
