"""Environment variables of Kafka's images. In a compose file for such an image, a user need only change the name of the
image.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from wirebroker import MockKafka
from wirebroker.client.jaas import login_modules, sections, users_of
from wirebroker.client.login import LoginFailed, log_in
from wirebroker.client.settings import Access
from wirebroker.client.wire import Connection, address_of
from wirebroker.commands import environment
from wirebroker.commands import listeners as commands_listeners
from wirebroker.commands.cli import build_parser
from wirebroker.commands.environment import from_environment
from wirebroker.commands.listeners import listeners, places
from wirebroker.commands.usage import UsageError, pair
from wirebroker.net.listener import Listener
from wirebroker.security.mechanisms import PLAIN, SCRAM_SHA_256

WITH_ZOOKEEPER = {
    "KAFKA_BROKER_ID": "3", "KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN", "KAFKA_JMX_PORT": "9101",
    "KAFKA_HEAP_OPTS": "-Xmx512M", "KAFKA_ADVERTISED_LISTENERS": "INSIDE://127.0.0.1:0,HOST://localhost:0",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,HOST:PLAINTEXT", "KAFKA_NUM_PARTITONS": "2",
}  # fmt: skip
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN_FILE = f"""// of a broker
sasl_ssl.KafkaServer {{ {LOGIN} user_carol='}};' ; }};
KafkaServer {{
  {LOGIN} username="admin"
  user_alice="a \\" quote; }}" /* a comment */ user_bob=b;
  org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="s";
}};
KafkaClient {{ {LOGIN} user_mallory="m"; }};
"""


def read(variables: dict[str, str], *flags: str) -> tuple[Namespace, dict[str, str], list[str]]:
    """Returns the arguments, the settings and the warnings of `serve` with `variables` and `flags`."""
    arguments = build_parser().parse_args(["serve", *flags])
    warnings = from_environment(arguments, variables)
    return arguments, dict(pair(text, "--config") for text in arguments.config), warnings


def test_a_broker_starts_with_variables_that_kafka_does_not_know() -> None:
    command = [sys.executable, "-m", "wirebroker.commands.cli", "serve"]
    with subprocess.Popen(command, env=WITH_ZOOKEEPER, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=10)[1]
    assert [line.partition("(")[2] for line in lines] == ["node 3, INSIDE)\n", "node 3, HOST)\n", ""], told
    (line,) = told.splitlines()
    assert line.endswith(
        " these variables name no setting of Kafka and have no effect: KAFKA_JMX_PORT, KAFKA_LOG4J_ROOT_LOGLEVEL, "
        "KAFKA_NUM_PARTITONS; did you mean 'num.partitions'?, KAFKA_ZOOKEEPER_CONNECT"
    )


def test_the_names_of_settings() -> None:
    login = f"{LOGIN} user_alice=s;"
    _, settings, warnings = read(
        {
            "KAFKA_CFG_NUM_PARTITIONS": "3", "KAFKA_CFG_LOG_RETENTION_MS": "5", "KAFKA_LOG_RETENTION_MS": "6",
            "KAFKA_LISTENER_NAME_SASL__A_SCRAM___SHA___256_SASL_JAAS_CONFIG": login, "KAFKA_MESSAGE_MAX_BYTES": "7",
            "KAFKA_CFG_PROCESS_ROLES": "broker",
        },
        "--config", "message.max.bytes=8",
    )  # fmt: skip
    assert settings == {
        "num.partitions": "3", "log.retention.ms": "6", "listener.name.sasl_a.scram-sha-256.sasl.jaas.config": login,
        "message.max.bytes": "8",
    }  # fmt: skip
    assert warnings == []


def test_without_listeners_a_broker_listens_at_the_advertised_ports() -> None:
    told = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,HOST://[::1]:9093"}
    arguments, settings, _ = read(told)
    assert {name: where for name, (where, _) in places(arguments, settings).items()} == {
        "PLAINTEXT": ("127.0.0.1", 29092), "HOST": ("127.0.0.1", 9093),
    }  # fmt: skip
    arguments, settings, _ = read(told, "--host", "0.0.0.0")  # as in the image's command
    assert {host for (host, _), _ in places(arguments, settings).values()} == {"0.0.0.0"}
    assert "listeners" not in read(told, "--port", "9092")[1]
    with pytest.raises(UsageError, match="HOSTNAME_COMMAND and PORT_COMMAND are not supported; write the address"):
        read({"KAFKA_ADVERTISED_LISTENERS": "OUTSIDE://_{HOSTNAME_COMMAND}:9094"})


def by_listeners(address: str) -> tuple[dict[str, str], list[str]]:
    return {"KAFKA_LISTENERS": "INSIDE://127.0.0.1:0", "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://{address}"}, []


WAYS: dict[str, Callable[[str], tuple[dict[str, str], list[str]]]] = {
    "KAFKA_ADVERTISED_LISTENERS": by_listeners,
    "KAFKA_CFG_ADVERTISED_LISTENERS": lambda address: (
        {"KAFKA_CFG_ADVERTISED_LISTENERS": f"INSIDE://{address}"}, ["--host", "::1"]),
    "a controller beside it": lambda address: (
        {"KAFKA_LISTENERS": "INSIDE://127.0.0.1:0,C://127.0.0.1:0", "KAFKA_CONTROLLER_LISTENER_NAMES": "D, C",
         "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://{address},C://0.0.0.0:1"}, []),
    "KAFKA_ADVERTISED_HOST_NAME": lambda address: (
        dict(zip(("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT"), address.rsplit(":", 1), strict=False)), []),
    "KAFKA_LISTENERS": lambda address: ({"KAFKA_LISTENERS": f"INSIDE://{address}"}, []),
    "--config": lambda address: (
        {}, ["--config", "listeners=INSIDE://:0", "--config", f"advertised.listeners= INSIDE://{address} "]),
    "--config of 2.8": lambda address: ({}, [*(f"--config=advertised.{name}={value}" for name, value in
                                               zip(("host.name", "port"), address.rsplit(":", 1), strict=False))]),
    "--advertise": lambda address: ({"KAFKA_ADVERTISED_LISTENERS": "INSIDE://other:1"}, ["--advertise", address]),
    "--advertise NAME": lambda address: ({"KAFKA_ADVERTISED_HOST_NAME": "other"}, ["--advertise", f"plaintext={address}"]),
    "--listener": lambda address: ({"KAFKA_ADVERTISED_PORT": "1"}, ["--listener", f"INSIDE=SSL://127.0.0.1:0@{address}"]),
}  # fmt: skip
"""Ways to give `serve` the advertised address. Each function returns variables and flags. Some of them also name another
address, but the advertised address must be `address`."""
TWO_PARTS = ("KAFKA_ADVERTISED_HOST_NAME", "--config of 2.8")
"""Ways that take the host and the port separately, so that the port may be missing."""
HERE = "this.machine"
FORMS: dict[str, tuple[str, int] | str] = {
    "kafka:9093": ("kafka", 9093), "[::1]:9093": ("::1", 9093), "kafka_1.net:9093": ("kafka_1.net", 9093),
    ":9093": (HERE, 9093), "kafka:0": ("kafka", 0), ":0": (HERE, 0), "kafka:": "is not host:port",
    "0.0.0.0:9093": "Kafka does not advertise 0.0.0.0", "0.0.0.0:0": "Kafka does not advertise 0.0.0.0",
    "kafka:99999": "is not host:port", "kafka:-1": "is not host:port", "my kafka:9093": "is not host:port",
    "http://kafka:9093": "is not", "kafka:x": "is not host:port",
}  # fmt: skip
"""Forms of an address. The value is the advertised address, or the reason why the broker does not start. Port 0 becomes the
bound port."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_clients_are_told_the_address_that_kafka_would_tell_them(way: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_listeners, "canonical_host_name", lambda: HERE)
    monkeypatch.setattr(commands_listeners, "tls_of", lambda *_: None)
    variables, flags = WAYS[way](form)
    expected = ("kafka", 0) if form == "kafka:" and way in TWO_PARTS else FORMS[form]

    def told() -> list[Listener]:
        arguments, settings, _ = read(variables, *flags)
        return listeners(arguments, settings, [1, 2])

    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            told()
        return
    one, two = (each.advertised or (each.host, each.port) for each in told())
    assert (one, two) == (expected, (expected[0], expected[1] and expected[1] + 1))


def test_the_bound_port_takes_the_place_of_port_0() -> None:
    with MockKafka() as kafka:
        bound = kafka._listen(Listener(1, "127.0.0.1", 0, ("kafka", 0), "OUTSIDE"))
        assert kafka._call(lambda engine: engine.cluster.brokers[1].addresses["OUTSIDE"]) == ("kafka", bound[1])


def test_stores_in_the_folder_of_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SECRETS", tmp_path)
    (tmp_path / "password").write_text("secret\n")
    told = {"KAFKA_SSL_KEYSTORE_FILENAME": "server.p12", "KAFKA_SSL_KEYSTORE_CREDENTIALS": "password",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "trust.p12"}  # fmt: skip
    secured = {"KAFKA_ADVERTISED_LISTENERS": "SASL_SSL://kafka:9094"}
    store = {"ssl.keystore.location": str(tmp_path / "server.p12"), "ssl.keystore.password": "secret"}
    assert read(told)[1] == {}
    assert store.items() == {item for item in read(told | secured)[1].items() if item[0].startswith("ssl.")}
    with_clients = read(told | secured | {"KAFKA_SSL_CLIENT_AUTH": "required"})[1]
    assert with_clients["ssl.truststore.location"] == str(tmp_path / "trust.p12")
    with pytest.raises(UsageError, match=r"^KAFKA_SSL_KEY_CREDENTIALS: \S+/nothing cannot be read: No such file"):
        read(told | secured | {"KAFKA_SSL_KEY_CREDENTIALS": "nothing"})


def test_the_users_of_a_jaas_file(tmp_path: Path) -> None:
    file = tmp_path / "server-jaas.conf"
    file.write_text(LOGIN_FILE)
    _, settings, warnings = read({"KAFKA_OPTS": f"-Dx=y -Djava.security.auth.login.config={file}"})
    assert warnings == []
    assert users_of(settings["sasl.jaas.config"]) == {"alice": 'a " quote; }', "bob": "b"}
    assert users_of(settings["listener.name.sasl_ssl.sasl.jaas.config"]) == {"carol": "};"}
    settings, warnings = read({"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"})[1:]
    assert (settings, warnings) == ({}, ["the file /nowhere in KAFKA_OPTS cannot be read: No such file or directory"])
    assert sections("nothing") == {}


@pytest.mark.parametrize("text", ["secret", "M required secret", 'M required a="secret', "M required; secret"])
def test_what_is_not_a_login_module_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="it is not|must be name") as refused:
        login_modules(text)
    assert "secret" not in str(refused.value)


def test_users_of_plain_in_a_setting() -> None:
    """The broker accepts PLAIN logins of the users in sasl.jaas.config, as Kafka's PlainServerCallbackHandler does. These users
    cannot log in with SCRAM."""
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    with MockKafka(security="sasl_plaintext", users={"bob": "b"}, configs={name: f'{LOGIN} user_alice="s";'}) as kafka:
        for user, password, mechanism, well in (
            ("alice", "s", PLAIN, True), ("bob", "b", PLAIN, True), ("alice", "b", PLAIN, False),
            ("alice", "s", SCRAM_SHA_256, False),
        ):  # fmt: skip
            access = Access("SASL_PLAINTEXT", mechanism, user, password)
            outcome = nullcontext() if well else pytest.raises(LoginFailed, match="refuses the login of alice")
            with closing(Connection(address_of(kafka.bootstrap_servers), 5)) as connection, outcome:
                log_in(connection, access)


def test_the_users_of_bitnami_and_the_topics_of_wurstmeister() -> None:
    arguments, settings, warnings = read(
        {"KAFKA_CLIENT_USERS": "alice, bob", "KAFKA_CLIENT_PASSWORDS": "a,b:c",
         "KAFKA_CREATE_TOPICS": "a:6:3,b:1:1:compact,c:2:1"},
        "--brokers", "2", "--topic", "c:5",
    )  # fmt: skip
    assert arguments.user == ["alice:a", "bob:b:c"]
    assert arguments.topic == ["c:5", "a:6:rf=2", "b:1:rf=1:cleanup.policy=compact"]
    assert (settings, warnings) == ({}, [])
    for wrong in ({"KAFKA_CLIENT_USERS": "alice"}, {"KAFKA_CREATE_TOPICS": "a:many"}):
        with pytest.raises(UsageError, match=f"^{next(iter(wrong))}"):
            read(wrong)


@pytest.mark.parametrize(
    ("variables", "flags", "sentence"),
    [
        ({"WIREBROKER_PROFILE": "latest"}, [], "WIREBROKER_PROFILE: there is no profile 'latest'"),
        ({"WIREBROKER_PROFILE": "latest"}, ["--profile", "newest"], "--profile: there is no profile 'newest'"),
        ({"WIREBROKER_BROKERS": "0"}, [], "WIREBROKER_BROKERS: a cluster has at least 1 broker"),
        ({"WIREBROKER_LIKE": "gone.toml"}, [], "WIREBROKER_LIKE"),
        ({"WIREBROKER_UPGRADE_TO": "kafka-3.1"}, [], "WIREBROKER_UPGRADE_TO: wirebroker has no profile of Kafka 3.1"),
        ({"WIREBROKER_UPGRADE_AFTER": "5"}, [], "WIREBROKER_UPGRADE_AFTER does nothing without --upgrade-to"),
        ({"WIREBROKER_WARM": "enabled"}, [], "WIREBROKER_WARM: 'enabled' is not true or false"),
        ({"WIREBROKER_CONFIG": "wrong"}, [], "WIREBROKER_CONFIG wrong: this is not NAME=VALUE"),
        ({"WIREBROKER_CONFIG": "a=b"}, ["--config", "wrong"], "--config or WIREBROKER_CONFIG wrong: this is not NAME=VALUE"),
    ],
)
def test_the_sentence_about_a_bad_value_names_the_variable(variables: dict[str, str], flags: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", *flags]
    environment = variables | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=20)
    assert (run.returncode, run.stderr.rpartition("wirebroker serve: ")[2][: len(sentence)]) == (2, sentence)
