"""`wirebroker serve` as a process: what it prints, how it ends, and which flags it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from bench.process import refuse_own_errors
from controlkit import ControlClient
from requesting import heartbeat, plain
from responses import only, sole
from wirebroker import MockKafka
from wirebroker.client.wire import ConnectionClosed, WireClient
from wirebroker.commands.cli import main
from wirebroker.testing.options import OptionError
from wirekit import without_times

COMMAND = [sys.executable, "-m", "wirebroker.commands.cli"]
MAIN = "import sys; from wirebroker.commands.cli import main; sys.exit(main())"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def serve() -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | environment,
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        refuse_own_errors(process.communicate()[1])


def until_ready(process: subprocess.Popen[str]) -> list[tuple[str, int, str]]:
    """Waits until the broker is ready. For each listener, the broker prints a line. Returns the host, the port and the rest of
    each line."""
    return until_ready_with_control(process)[0]


def until_ready_with_control(process: subprocess.Popen[str]) -> tuple[list[tuple[str, int, str]], str]:
    """Like `until_ready`, but also returns the address of the control, or "" if there is no control."""
    found, control = [], ""
    assert process.stdout is not None
    for text in process.stdout:
        if text == "ready\n":
            return found, control
        if text.startswith("control on "):
            control = text.removeprefix("control on ").strip()
            continue
        match = re.fullmatch(r"listening on (\S+):(\d+) \((.*)\)\n", text)
        assert match, text
        found.append((match[1], int(match[2]), match[3]))
    raise AssertionError(process.stderr.read() if process.stderr else "")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_its_listeners_and_ends_cleanly(serve: Start, how: int) -> None:
    process = serve("--port", "0", "--topic", "orders:3", "--topic", "payments")
    ((host, port, rest),) = until_ready(process)
    assert (host, rest) == ("127.0.0.1", "node 1")
    topics = WireClient(host, port).request(plain("Metadata", topics=None), 9).topics
    assert {topic.name: len(topic.partitions) for topic in topics} == {"orders": 3, "payments": 1}
    process.send_signal(how)
    assert process.wait(10) == 0


def test_uvloop(serve: Start) -> None:
    from wirekit import batch, produce_request

    pytest.importorskip("uvloop")
    ((host, port, _),) = until_ready(serve("--port", "0", "--topic", "orders", "--loop", "uvloop"))
    wire = WireClient(host, port)
    for size in (1, 300_000):
        for _ in range(3):
            response = wire.request(produce_request("orders", batch(tag="x" * size)), 9)
            assert only(response).error_code == 0


def test_three_brokers(serve: Start) -> None:
    listeners = until_ready(serve("--port", "0", "--brokers", "3"))
    assert [rest for _, _, rest in listeners] == ["node 1", "node 2", "node 3"]
    told = WireClient(*listeners[1][:2]).request(plain("Metadata", topics=None), 9).brokers
    assert [(b.node_id, b.host, b.port) for b in told] == [(i, h, p) for i, (h, p, _) in enumerate(listeners, 1)]


def test_brokers_are_numbered_from_where_node_id_says(serve: Start) -> None:
    listeners = until_ready(serve("--port", "0", "--brokers", "2", KAFKA_NODE_ID="0"))
    assert [rest for _, _, rest in listeners] == ["node 0", "node 1"]
    wire = WireClient(*listeners[0][:2])
    told = wire.request(plain("Metadata", topics=None), 9).brokers
    assert [(b.node_id, b.port) for b in told] == [(i, p) for i, (_, p, _) in enumerate(listeners)]
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": ["node.id"]}
    (found,) = WireClient(*listeners[1][:2]).request(plain("DescribeConfigs", resources=[resource]), 4).results
    assert [config.value for config in found.configs] == ["1"]


def test_each_broker_of_a_cluster_has_every_listener(serve: Start) -> None:
    process = serve("--port", "0", "--brokers", "2", "--listener", "NETWORK=127.0.0.1:0@kafka:29092")
    listeners = until_ready(process)
    assert [rest for _, _, rest in listeners] == ["node 1", "node 2", "node 1, NETWORK", "node 2, NETWORK"]
    for host, port, _ in listeners[2:]:
        brokers = WireClient(host, port).request(plain("Metadata", topics=None), 9).brokers
        assert [(b.node_id, b.host, b.port) for b in brokers] == [(1, "kafka", 29092), (2, "kafka", 29093)]


def test_each_listener_advertises_its_own_address(serve: Start) -> None:
    process = serve("--port", "0", "--advertise", "broker:19092", "--listener", "HOST=127.0.0.1:0@localhost:9999")
    (inside, outside) = until_ready(process)
    assert outside[2] == "node 1, HOST"
    for (host, port, _), told in ((inside, ("broker", 19092)), (outside, ("localhost", 9999))):
        broker = WireClient(host, port).request(plain("Metadata", topics=None), 9).brokers[0]
        assert (broker.host, broker.port) == told


def told(listener: tuple[str, int, str]) -> tuple[str, int]:
    """Sends Metadata to `listener`, and returns the address of the first broker in the response."""
    broker = WireClient(*listener[:2]).request(plain("Metadata", topics=None), 9).brokers[0]
    return broker.host, broker.port


def test_listeners_have_a_protocol_and_advertised_addresses_by_name(serve: Start) -> None:
    process = serve(
        "--listener", "INSIDE=PLAINTEXT://127.0.0.1:0", "--listener", "SECURE=SASL_PLAINTEXT://127.0.0.1:0", "--listener",
        "SASL_PLAINTEXT=127.0.0.1:0", "--advertise", "INSIDE=kafka:29092", "--user", "alice:secret",
    )  # fmt: skip
    inside, secure, named = until_ready(process)
    assert [each[2] for each in (inside, secure, named)] == [
        "node 1, INSIDE", "node 1, SECURE, SASL_PLAINTEXT", "node 1, SASL_PLAINTEXT",
    ]  # fmt: skip
    assert told(inside) == ("kafka", 29092)
    for each in (secure, named):
        with pytest.raises(ConnectionClosed):
            told(each)


def test_the_usual_listener_stays_if_its_port_is_given(serve: Start) -> None:
    process = serve("--port", "0", "--listener", "SECURE=SASL_PLAINTEXT://127.0.0.1:0", "--user", "alice:secret")
    usual, secure = until_ready(process)
    assert (usual[2], secure[2]) == ("node 1", "node 1, SECURE, SASL_PLAINTEXT")
    assert told(usual) == usual[:2]


def test_kafkas_map_of_protocols(serve: Start) -> None:
    process = serve(
        KAFKA_LISTENERS="CLIENTS://127.0.0.1:0,OTHERS://127.0.0.1:0,CTL://127.0.0.1:1", KAFKA_CONTROLLER_LISTENER_NAMES="CTL",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="CLIENTS:SASL_PLAINTEXT,OTHERS:PLAINTEXT,CTL:PLAINTEXT",
        KAFKA_ADVERTISED_LISTENERS="OTHERS://elsewhere:9092",
    )  # fmt: skip
    clients, others = until_ready(process)
    assert clients[2] == "node 1, CLIENTS, SASL_PLAINTEXT"
    assert told(others) == ("elsewhere", 9092)


def setting(process: subprocess.Popen[str], name: str) -> str:
    ((host, port, _),) = until_ready(process)
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": [name]}
    response = WireClient(host, port).request(plain("DescribeConfigs", resources=[resource]), 4)
    value: str = sole(response.results).configs[0].value
    return value


def test_settings_by_flag_and_by_kafkas_variables(serve: Start) -> None:
    process = serve("--port", "0", "--config", "log.retention.ms=5", KAFKA_NUM_PARTITIONS="7", KAFKA_LOG_RETENTION_MS="6")
    assert setting(process, "log.retention.ms") == "5"
    assert setting(serve("--port", "0", KAFKA_NUM_PARTITIONS="7"), "num.partitions") == "7"
    assert setting(serve("--port", "0", KAFKA_NUM_PARTITIONS="7", WIREBROKER_PARTITIONS="8"), "num.partitions") == "8"


def test_flags_by_our_own_variables(serve: Start) -> None:
    ((host, port, _),) = until_ready(serve(WIREBROKER_PORT="0", WIREBROKER_TOPIC="a:2 b"))
    topics = WireClient(host, port).request(plain("Metadata", topics=None), 9).topics
    assert {topic.name: len(topic.partitions) for topic in topics} == {"a": 2, "b": 1}


def test_kafkas_listener_variables(serve: Start) -> None:
    process = serve(
        KAFKA_LISTENERS="PLAINTEXT://127.0.0.1:0,HOST://127.0.0.1:0,CONTROLLER://127.0.0.1:9093",
        KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:29092,HOST://localhost:9092",
    )
    (inside, outside) = until_ready(process)
    told = [WireClient(*where[:2]).request(plain("Metadata", topics=None), 9).brokers[0] for where in (inside, outside)]
    assert [(b.host, b.port) for b in told] == [("kafka", 29092), ("localhost", 9092)]


def test_a_second_signal_changes_nothing(serve: Start, tmp_path: Path) -> None:
    process = serve("--port", "0", "--data", str(tmp_path / "data"))
    until_ready(process)
    while process.poll() is None:
        process.terminate()
    assert (process.returncode, process.communicate()[1]) == (0, "")


REFUSED = [
    (["--sync", "always"], "--sync: 'always' needs a data directory, but none is given"),
    (["--config", "num.partitons=3"], "num.partitions"),
    (["--config", "num.partitions=many"], "num.partitions"),
    (["--config", "nothing"], "this is not NAME=VALUE"),
    (["--profile", "kafka-4"], "did you mean"),
    (["--set", "windw=3"], "did you mean 'window'"),
    (["--topic", "bad/name"], "characters other than"),
    (["--topic", "orders:zero"], "the number of partitions is 'zero'"),
    (["--topic", "a", "--topic", "a"], "named twice"),
    (["--brokers", "0"], "--brokers: a cluster has at least 1 broker, not 0"),
    (["--max-version", "Prodce=3"], "--max-version: there is no API named 'Prodce'; did you mean 'Produce'?"),
    (["--max-version", "Produce=99"], "--max-version: Produce has the versions 3 to 13 here, not 99"),
    (["--max-version", "Produce=2"], "--max-version: Produce has the versions 3 to 13 here, not 2"),
    (["--max-version", "Produce=7", "--profile", "kafka-0.11"], "--max-version: Produce has the versions 0 to 3 here"),
    (["--max-version", "Vote=0"], "--max-version: Vote is not served here"),
    (["--require-fired"], "--require-fired: no fault is loaded; load faults with --faults"),
    (["--trace", "consle"], "--trace consle: this is neither 'console' nor a name like trace.jsonl; did you mean 'console'?"),
    (["--advertise", "somewhere"], "is not host:port"),
    (["--advertise", "INSIDE=h:1"], "--advertise INSIDE: no listener has this name; there is PLAINTEXT"),
    (["--listener", "A=TLS://h:1"], "--listener A: 'TLS' is not a security protocol; there are PLAINTEXT, SSL, SASL_PLAINTEXT"),
    (["--listener", "PLAINTEXT=h:1"], "--listener PLAINTEXT: another listener has this name"),
    (["--user", "alice"], "--user alice: this is not NAME:PASSWORD"),
    (["--config", "listeners=9092"], "listeners: '9092' is not NAME://host:port"),
    (["--config", "listener.security.protocol.map=A"], "listener.security.protocol.map: 'A' is not NAME:PROTOCOL"),
    (["--config", "sasl.enabled.mechanisms=GSSAPI"], "sasl.enabled.mechanisms=GSSAPI: Kerberos is not served here"),
    (["--trace", "/nonexistent/trace.jsonl"], "No such file or directory"),
    (["--trace", "console", "--trace-level", "off"], "--trace-level off: --trace would have no events to show"),
    (["--host", "256.1.1.1"], "cannot listen on 256.1.1.1"),
    (
        ["--listener", "SSL://127.0.0.1:0"],
        "this is not NAME=[PROTOCOL://]HOST:PORT[@HOST:PORT], as INSIDE=SASL_PLAINTEXT://127",
    ),
    (["--feature", "x"], "--feature x: this is not NAME=LEVEL"),
    (["--set", "x"], "--set x: this is not RULE=VALUE"),
    (["--max-version", "x"], "--max-version x: this is not API=VERSION"),
    (["--control", "somewhere"], "--control: 'somewhere' is not host:port"),
    (["--control", "9" * 5000], "is not host:port"),
    (["--topic", f"orders:{'9' * 5000}"], "the number of partitions is"),
    (["--max-version", "Produce=²"], "'²' is not a version"),
    (["--control", "65536"], "--control: '127.0.0.1:65536' is not host:port"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_bad_flag_gets_one_sentence_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("wirebroker serve: ")
    assert printed.err.count("\n") == 1
    assert said in printed.err
    assert printed.out == ""


MISTYPED = [
    (["serv"], "wirebroker: there is no command 'serv'; did you mean 'serve'? (`wirebroker --help` lists the commands)"),
    (["trace", "shwo", "x"], "wirebroker trace: there is no command 'shwo'; did you mean 'show'?"),
    (["serve", "--prot", "1"], "wirebroker serve: there is no flag --prot; did you mean '--port'?"),
    (["serve", "--prot=1"], "wirebroker serve: there is no flag --prot; did you mean '--port'?"),
    (["serve", "extra"], "wirebroker serve: the command takes no argument 'extra'"),
    (["serve", "--loop", "uvlop"], "argument --loop: 'uvlop' is not one of asyncio, uvloop; did you mean 'uvloop'?"),
    (["serve", "--port", "many"], "argument --port: 'many' is not a whole number"),
    (["audit", "--oot", "report", "--path", "logs"], "wirebroker audit: there is no flag --oot; did you mean '--out'?"),
]


@pytest.mark.parametrize(("arguments", "said"), MISTYPED, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_mistyped_word_gets_a_sentence_with_the_nearest_one(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr().err
    assert (ended.value.code, printed.count("\n")) == (2, 1)
    assert said in printed


def test_a_mistyped_console_makes_no_file_and_a_path_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Start
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--port", "0", "--trace", "consle"]) == 2
    assert list(tmp_path.iterdir()) == []
    until_ready(serve("--port", "0", "--trace", "./rows"))
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("WIREBROKER_PORT", "tcp://10.0.0.1:9092", "is not a whole number"),
        ("WIREBROKER_LOOP", "fast", "is not one of asyncio, uvloop"),
    ],
)
def test_a_variable_with_a_bad_value_is_named(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit):
        main(["serve"])
    assert f"wirebroker serve: {variable}: {value!r} {said}" in capsys.readouterr().err


def test_more_brokers_than_open_files() -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); {MAIN}"
    run = subprocess.run(
        [sys.executable, "-c", limited, "serve", "--port", "0", "--brokers", "80"], capture_output=True, text=True, timeout=30
    )
    assert run.returncode == 2
    assert run.stderr == (
        "wirebroker serve: cannot listen on 127.0.0.1:0: Too many open files; "
        "let the process open more files (ulimit -n), or start fewer brokers\n"
    )


def test_lines_of_the_log_begin_with_the_time(serve: Start) -> None:
    process = serve("--port", "0")
    ((host, port, _),) = until_ready(process)
    with socket.create_connection((host, port)) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert client.recv(1) == b""
    process.send_signal(signal.SIGTERM)
    (line,) = process.communicate()[1].splitlines()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO ", line)
    assert line.endswith("the client speaks HTTP/2 (as gRPC does), and this is a Kafka listener")


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"brokers": 0}, ["--brokers", "0"]),
        ({"profile": "kafka-4"}, ["--profile", "kafka-4"]),
        ({"rules": {"windw": 3}}, ["--set", "windw=3"]),
        ({"topics": ["bad/name"]}, ["--topic", "bad/name"]),
        ({"max_versions": {"Prodce": 3}}, ["--max-version", "Prodce=3"]),
        ({"sync": "always"}, ["--sync", "always"]),
    ],
    ids=str,
)
def test_mock_kafka_and_serve_refuse_an_option_with_the_same_words(
    options: dict[str, Any], flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OptionError) as refused:
        MockKafka(**options)
    assert main(["serve", "--port", "0", *flags]) == 2
    assert capsys.readouterr().err == f"wirebroker serve: {flags[0]}: {refused.value.problem}\n"


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1:{port}: " in capsys.readouterr().err


def test_the_trace_on_the_console_and_in_a_file(serve: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wirekit import batch, produce_request

    file = tmp_path / "trace.jsonl"
    process = serve("--port", "0", "--topic", "orders", "--trace", "console", "--trace", str(file))
    ((host, port, _),) = until_ready(process)
    wire = WireClient(host, port)
    for first in (0, 5, 0):
        wire.request(produce_request("orders", batch(first, 2, pid=9, epoch=0)), 9)
    process.send_signal(signal.SIGTERM)
    printed = process.communicate()[0].splitlines()
    assert [re.search("accepted|duplicate|rejected", text)[0] for text in printed] == [
        "accepted",
        "rejected",
        "duplicate",
    ]  # type: ignore[index]
    run, *rows = [json.loads(text) for text in file.read_text().splitlines()]
    assert (run["event"], run["change"]) == ("run", "started")
    assert [(row["verdict"], row["code"], row["base_offset"]) for row in rows] == [
        ("accepted", 0, 0), ("rejected", 45, -1), ("duplicate", 0, 0),
    ]  # fmt: skip
    assert "expected sequence 2 for producer 9 epoch 0 on orders-0, got 5" in rows[1]["explain"]

    file.write_text(file.read_text() + "no json\n")
    assert main(["trace", "show", str(file), "--verdict", "rejected"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    assert "got 5" in shown.out
    assert f"{file}:5" in shown.err


def test_the_trace_at_another_level(serve: Start) -> None:
    process = serve("--port", "0", "--topic", "orders", "--trace", "console", "--trace-level", "exchanges")
    ((host, port, _),) = until_ready(process)
    WireClient(host, port).request(plain("Metadata", topics=[]), 9)
    process.send_signal(signal.SIGTERM)
    printed = process.communicate()[0]
    assert re.search(r"#1 +Metadata v9 +0 ms \d+ B answered", printed)
    assert "opened" in printed
    assert " asked" not in printed, "requests are traced only at a higher trace level"


def produced_twice(host: str, port: int) -> list[int]:
    from wirekit import batch, produce_request

    wire = WireClient(host, port)
    responses = [wire.request(produce_request("orders", batch()), 9) for _ in range(2)]
    return [only(response).error_code for response in responses]


def ended(process: subprocess.Popen[str]) -> list[str]:
    """Stops the process. Returns its lines on stderr, except those about connections."""
    process.send_signal(signal.SIGTERM)
    lines = without_times(process.communicate(timeout=10)[1])
    assert process.returncode == 0
    return [text for text in lines if " connection " not in text]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_trace_on_a_full_disk_ends_with_one_sentence(serve: Start) -> None:
    process = serve("--port", "0", "--topic", "orders", "--trace", "/dev/full", "--trace", "console")
    ((host, port, _),) = until_ready(process)
    assert produced_twice(host, port) == [0, 0]
    assert ended(process) == [
        "WARNING the trace no longer goes to /dev/full (No space left on device); nothing more goes there"
    ]


def test_a_closed_console_ends_with_one_sentence(serve: Start) -> None:
    process = serve("--port", "0", "--topic", "orders", "--trace", "console")
    ((host, port, _),) = until_ready(process)
    assert process.stdout is not None
    process.stdout.close()
    for _ in range(10):  # the thread that writes the trace does not notice the error at once
        assert produced_twice(host, port) == [0, 0]
    process.stdout = None
    assert ended(process) == ["WARNING the trace no longer goes to the console (Broken pipe); the broker goes on without it"]


def test_a_console_that_is_not_read_holds_up_nobody(serve: Start) -> None:
    process = serve("--port", "0", "--trace", "console", "--trace-level", "all")
    ((host, port, _),) = until_ready(process)
    wire = WireClient(host, port, timeout=10)
    for _ in range(1000):  # a pipe has space for half of these lines
        wire.request(plain("Metadata", topics=[]), 9)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0


def test_serve_goes_on_if_stdout_is_closed() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    unread, stdout = os.pipe()
    os.close(unread)
    command = [*COMMAND, "serve", "--port", str(port), "--topic", "orders"]
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
    os.close(stdout)
    try:
        while main(["health", "--bootstrap", f"127.0.0.1:{port}"]):
            assert process.poll() is None, process.communicate()[1]
        assert produced_twice("127.0.0.1", port) == [0, 0]
        assert ended(process) == []
    finally:
        process.kill()
        process.communicate()


def test_trace_show_of_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "show", "/nonexistent"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_health(serve: Start, capsys: pytest.CaptureFixture[str]) -> None:
    ((host, port, _),) = until_ready(serve("--port", "0"))
    assert main(["health", "--bootstrap", f"{host}:{port}"]) == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["health", "--bootstrap", where, "--timeout", "0.2"]) == 1
    assert main(["health", "--bootstrap", where, "--timeout", "0.2"]) == 1
    assert main(["health", "--bootstrap", "nowhere"]) == 2
    assert "is healthy: 1 broker(s)" in capsys.readouterr().out


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "wirebroker serve --topic orders:3" in capsys.readouterr().out


# --control


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        ("0", r"http://127\.0\.0\.1:\d+"),
        (":0", r"http://127\.0\.0\.1:\d+"),
        ("localhost:0", r"http://localhost:\d+"),
        ("0.0.0.0:0", r"http://0\.0\.0\.0:\d+ \(open to others\)"),
    ],
)
def test_serve_prints_the_controls_address_and_whether_it_is_open_to_others(serve: Start, where: str, printed: str) -> None:
    ((host, port, _),), said = until_ready_with_control(serve("--port", "0", "--control", where))
    assert re.fullmatch(printed, said)
    health = ControlClient(said.split()[0].replace("0.0.0.0", "127.0.0.1")).ask("GET", "/health")
    assert health["bootstrap_servers"] == f"{host}:{port}"


def test_serve_ends_cleanly_while_a_request_waits(serve: Start) -> None:
    process = serve("--port", "0", "--control", "0")
    url = until_ready_with_control(process)[1]
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 10) as waiting:
        waiting.sendall(b"GET /topics/orders/records/wait?timeout=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ControlClient(url).ask("GET", "/health")
        process.send_signal(signal.SIGTERM)
        assert waiting.recv(100).startswith(b"HTTP/1.1 503 ")
    assert process.wait(5) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_settings_without_effect_are_named_once_at_the_start(serve: Start) -> None:
    process = serve("--port", "0", "--config", "security.providers=x", KAFKA_NUM_IO_THREADS="4")
    until_ready(process)
    process.terminate()
    names = "num.io.threads, security.providers"
    (line,) = process.communicate(timeout=10)[1].splitlines()
    assert line.endswith(f" WARNING these settings of Kafka have no effect here: {names} (docs/reference/settings.md says why)")


def test_a_reset_goes_back_to_the_start(serve: Start, tmp_path: Path) -> None:
    from wirekit import batch, produce_request

    plan, trace = tmp_path / "faults.toml", tmp_path / "trace.jsonl"
    plan.write_text('[[fault]]\nkind = "throttle"\nms = 1\napi = "Produce"\n')
    process = serve(
        "--port", "0", "--control", "0", "--topic", "orders:2", "--faults", str(plan), "--require-fired",
        "--trace", str(trace), "--random-seed", "5",
    )  # fmt: skip
    ((host, port, _),), url = until_ready_with_control(process)
    control = ControlClient(url)
    before = control.ask("GET", "/topics")["topics"]
    control.ask("POST", "/topics", {"name": "more"})
    control.ask("DELETE", "/faults")
    WireClient(host, port).request(produce_request("orders", batch()), 9)
    control.ask("POST", "/reset")
    assert control.ask("GET", "/topics")["topics"] == before
    assert [fault["fired"] for fault in control.ask("GET", "/faults")["faults"]] == [0]
    WireClient(host, port).request(produce_request("orders", batch()), 9)
    assert [json.loads(text)["event"] for text in trace.read_text().splitlines()] == [
        "run",
        "produce",
        "run",
        "produce",
        "fault",
    ]
    plan.unlink()
    control.ask("POST", "/reset")
    assert len(control.ask("GET", "/faults")["faults"]) == 1, "a reset does not read the file again"
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 1, "the fault has not fired since the reset"


def test_a_soft_reset_goes_back_to_the_start_and_keeps_connections(serve: Start, tmp_path: Path) -> None:
    from wirekit import batch, produce_request

    plan, trace = tmp_path / "faults.toml", tmp_path / "trace.jsonl"
    plan.write_text('[[fault]]\nkind = "throttle"\nms = 1\napi = "Produce"\n')
    process = serve(
        "--port", "0", "--control", "0", "--topic", "orders", "--faults", str(plan), "--trace", str(trace), "--require-fired"
    )
    ((host, port, _),), url = until_ready_with_control(process)
    control, wire = ControlClient(url), WireClient(host, port)
    for _ in range(2):
        wire.request(produce_request("orders", batch()), 9)
        assert [fault["fired"] for fault in control.ask("GET", "/faults")["faults"]] == [1]
        control.ask("DELETE", "/faults")
        control.ask("POST", "/trace/level", {"level": "all"})
        control.ask("POST", "/reset", {"soft": True})
        assert control.ask("GET", "/trace/level")["level"] == "verdicts"
        assert control.ask("GET", "/topics/orders/records")["records"] == control.ask("GET", "/verdicts")["verdicts"] == []
    events = [json.loads(text)["event"] for text in trace.read_text().splitlines()]
    assert events == ["run", *["produce", "fault", "run"] * 2]
    control.ask("POST", "/reset", {"soft": True})
    process.send_signal(signal.SIGTERM)
    named = [line for line in process.communicate(timeout=10)[1].splitlines() if " never fired" in line]
    assert len(named) == process.returncode == 1, "only one message is about the loaded fault"


def test_a_warm_broker_responds_for_all_coordinators_at_once(serve: Start) -> None:
    def errors(port: int) -> list[int]:
        """Returns the error of the first FindCoordinator, and the error of the first request to the coordinator."""
        wire = WireClient("127.0.0.1", port)
        found = wire.request(plain("FindCoordinator", key_type=0, key="g"), 3)
        return [found.error_code, wire.request(heartbeat("g", "m", 1), 0).error_code]

    cold, not_coordinator, unknown_member = 15, 16, 25
    process = serve("--port", "0", "--control", "0")
    ((_, port, _),), url = until_ready_with_control(process)
    control = ControlClient(url)
    assert errors(port) == [cold, not_coordinator]
    control.ask("POST", "/reset")
    control.ask("POST", "/warm")
    assert errors(port) == [0, unknown_member]
    process = serve("--port", "0", "--control", "0", "--warm")
    ((_, port, _),), url = until_ready_with_control(process)
    for _ in range(2):
        names = {topic["name"] for topic in ControlClient(url).ask("GET", "/topics?internal=true")["topics"]}
        assert names == {"__consumer_offsets", "__transaction_state", "__share_group_state"}
        assert errors(port) == [0, unknown_member]
        ControlClient(url).ask("POST", "/reset")


def test_faults_that_never_fired_are_named_although_they_are_gone(serve: Start) -> None:
    from wirekit import batch, produce_request

    process = serve("--port", "0", "--control", "0", "--topic", "orders", "--require-fired")
    ((host, port, _),), url = until_ready_with_control(process)
    control, ids = ControlClient(url), []
    for name in ("deleted", "fired"):
        rule = {"kind": "throttle", "ms": 1, "api": "Produce", "name": name, "nth": 2 if name == "deleted" else 1}
        ids.append(control.ask("POST", "/faults", rule)["id"])
    WireClient(host, port).request(produce_request("orders", batch()), 9)
    for each in ids:
        control.ask("DELETE", f"/faults/{each}")
    control.ask("POST", "/faults", {"kind": "throttle", "ms": 1, "name": "reset"})
    control.ask("POST", "/reset")
    process.send_signal(signal.SIGTERM)
    *_, first, second = process.communicate(timeout=10)[1].splitlines()
    assert "the fault throttle(api=Produce, nth=2, ms=1, name=deleted) never fired; 1 request matched it" in first
    assert "the fault throttle(ms=1, name=reset) never fired; no request matched this rule; no request has arrived" in second
    assert process.returncode == 1


def test_a_reset_sets_up_the_scenario_again_and_keeps_the_trace_level(serve: Start) -> None:
    process = serve("--port", "0", "--control", "0", "--scenario", "lost-ack", "--trace-level", "exchanges")
    ((host, port, _),), url = until_ready_with_control(process)
    control = ControlClient(url)
    seen = []
    for _ in range(2):
        WireClient(host, port).request(plain("ApiVersions"), 0)
        rows = [json.loads(row)["event"] for row in control.send("GET", "/trace.jsonl").body.splitlines()]
        seen.append(([each["rule"] for each in control.ask("GET", "/faults")["faults"]], rows))
        control.ask("POST", "/reset")
    assert seen[0] == seen[1]
    assert seen[0][0][0]["kind"] == "lose_ack"
    assert "reply" in seen[0][1]


def test_a_port_in_use_for_the_control(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", "0", "--control", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1:{port} for the control: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--data", ""], "--data: the value is empty"),
        (["audit", "--out", "out", "--path", ""], "--path: the value is empty"),
        (["audit", "--out", "out", "--bootstrap", ""], "--bootstrap: the value is empty"),
        (["audit", "--out", "", "--path", "."], "--out: the value is empty"),
        (["audit", "--out", "out", "--path", ".", "--intended", " "], "--intended: the value is empty"),
        (["audit", "--out", "out", "--path", ".", "--trace", ""], "--trace: the value is empty"),
        (["audit", "--out", "out", "--path", ".", "--follow", "0"], "seconds above 0 and at most 31622400, not '0'"),
        (["audit", "--out", "out", "--path", ".", "--follow", "-1"], "--follow: expected a number of seconds above 0"),
        (["audit", "--out", "out", "--path", ".", "--follow", "nan"], "--follow: expected a number of seconds above 0"),
        (["audit", "--out", "out", "--path", ".", "--follow", "soon"], "--follow: expected a number of seconds above 0"),
        (
            ["audit", "--out", "out", "--path", ".", "--producer-expiration", "-5"],
            "expected a whole number from 1 to 9223372036854775807, not '-5'",
        ),
    ],
)
def test_arguments_without_a_meaning_are_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert words in capsys.readouterr().err


def test_an_empty_variable_is_refused_like_an_empty_flag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WIREBROKER_DATA", "")
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--help-not"])
    assert "WIREBROKER_DATA: the value is empty" in capsys.readouterr().err


def test_a_misspelt_variable_is_named_with_the_right_one(serve: Start) -> None:
    process = serve("--port", "0", WIREBROKER_TRACE_LEVE="off", WIREBROKER_SERVICE_HOST="10.0.0.1")
    until_ready(process)
    process.terminate()
    (line,) = process.communicate(timeout=10)[1].splitlines()
    sentence = "the environment variable WIREBROKER_TRACE_LEVE has no effect; did you mean 'WIREBROKER_TRACE_LEVEL'?"
    assert line.endswith(f" WARNING {sentence}")


def test_a_program_reads_one_line_when_the_broker_is_ready(serve: Start) -> None:
    tls = ("--listener", "TLS=SSL://127.0.0.1:0", "--tls", "auto")
    process = serve("--port", "0", "--brokers", "2", "--control", "0", "--ready", "json", *tls)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert list(ready) == ["bootstrap", "control", "version"]
    assert len(ready["bootstrap"].split(",")) == 2
    with urlopen(f"{ready['control']}/health") as response:
        assert json.load(response)["bootstrap_servers"] == ready["bootstrap"]
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0] == ""
