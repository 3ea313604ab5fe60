"""Tests README.md and docs/. The code on the pages must run, tables and output must match wirebroker's code, and names must
exist.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer

from dialogue import Dialogue, accepted, refused, seq
from kafkawire.messages.metadata import MetadataRequest
from wirebroker import faults
from wirebroker.apis import SERVED
from wirebroker.audit.journal import FIELDS
from wirebroker.commands.cli import build_parser, main
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.profile import PROFILES, Rules
from wirebroker.core.releases import DEFAULT
from wirebroker.core.setting_definitions import BROKER_SETTINGS
from wirebroker.mock import MockKafka
from wirebroker.security.mechanisms import SERVED as SASL_MECHANISMS
from wirebroker.testing.expectations import Difference, subset
from wirebroker.trace.levels import LEVELS
from wirebroker.trace.rows import ProduceRow
from wirebroker.trace.sinks import ConsoleSink
from wirebroker_tools.commands.demo import demonstrate
from wirebroker_tools.commands.demo.show import Screen
from wirebroker_tools.conformance.recording import load
from wirebroker_tools.drivers import CLIENTS
from wirebroker_tools.pictures import PICTURES
from wirebroker_tools.scenarios.play import play
from wirebroker_tools.scenarios.reading import find
from wirekit import FEW_PLUGINS, RawProducer, kafka_jars, lacking

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name: str) -> str:
    (path,) = (ROOT / "docs").rglob(name)
    return path.read_text(encoding="utf-8")


AUDIT = ROOT / "docs" / "how-to" / "audit.md"
OF_OTHERS = {
    "--bootstrap-server",
    "--describe",
    "--release-version",
    "--no-file-parallelism",
    "--test-concurrency",
    "--full-trace",
    "--user",
    "--detach",
    "--name",
    "--check",
    "--rm",
    "--build",
    "--py-files",
    "--archives",
    "--cores",
    "--deploy-mode",
    "--prot",
    "--format",
    "--nightly",
    "--mock-kafka-explore",
    "--mock-kafka-pictures",
}
"""Flags that occur in the texts, but that no wirebroker command has: flags of other programs and of the pytest plugin, and a
mistyped flag."""


class Block(NamedTuple):
    """A fenced block of a page."""

    path: Path
    line: int
    language: str
    code: str


def blocks(language: str) -> list[Block]:
    found = []
    for path in TEXTS:
        if path.name == "quickstarts.md":
            continue  # tests/test_quickstarts.py runs the projects on this page
        if path.name == "explore.md" and language in ("java", "go"):
            continue  # tests/test_explore_clients.py explores these programs
        text = path.read_text(encoding="utf-8").partition("\n## Stories")[0]  # tests/test_stories.py plays the stories
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if match[1] == language:
                found.append(Block(path, text[: match.start()].count("\n") + 1, match[1], match[2]))
    return found


def named(block: Block) -> str:
    return f"{block.path.name}:{block.line}"


def table(text: str, heading: str) -> list[list[str]]:
    """Returns the rows of the table whose first line begins with `heading`. Backquotes and the line of dashes are left out."""
    lines = text[text.index(f"\n{heading}") + 1 :].splitlines()
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


# Code


@pytest.mark.parametrize("block", [b for b in blocks("python") if "def test_" not in b.code], ids=named)
def test_python_runs(block: Block, mock_kafka: MockKafka, tmp_path: Path) -> None:
    code = block.code.replace("localhost:9092", mock_kafka.bootstrap_servers)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    if code.count(mock_kafka.bootstrap_servers):
        assert [record.value for record in mock_kafka.records("orders")] == [b"a pound of tea"]
        assert {row.producer_id >= 0 for row in mock_kafka.trace.produce("orders")} == {True}
    if "consumer" in code:
        assert "a pound of tea" in run.stdout


@pytest.mark.parametrize("block", [b for b in blocks("python") if "def test_" in b.code], ids=named)
def test_python_tests_pass_and_can_fail(block: Block, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shown=block.code, test_otherwise=block.code.replace('== b"', '!= b"'))
    if "prod.toml" in block.code:
        learn_as_shown(pytester.path)
    outcome = pytester.runpytest_subprocess(*FEW_PLUGINS)  # the failed test does not close its client
    outcome.assert_outcomes(passed=1, failed=1)


def learn_as_shown(folder: Path) -> None:
    """As a user who has few rights, learn a secured cluster of three brokers, and write the file into `folder`."""
    acls = [
        "allow User:orders WRITE TOPIC orders", "allow User:audit DESCRIBE TOPIC *",
        "allow User:audit DESCRIBE_CONFIGS TOPIC orders", "allow User:audit DESCRIBE CLUSTER kafka-cluster",
        "allow User:audit DESCRIBE_CONFIGS CLUSTER kafka-cluster",
    ]  # fmt: skip
    topics = {"orders": {"partitions": 4, "replication_factor": 3, "configs": {"min.insync.replicas": 2}}, "payments": 6}
    users = {"audit": "secret", "orders": "secret", "billing": "secret"}
    configs = {"message.max.bytes": 2_000_000, "broker.rack": "a,b,c"}
    with MockKafka(brokers=3, security="sasl_plaintext", topics=topics, users=users, acls=acls, configs=configs) as kafka:
        settings = kafka.client_settings("java").items()
        (folder / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in settings))
        command = ["learn", "--bootstrap", kafka.bootstrap_servers.split(",")[0], "--out", "prod.toml"]
        with contextlib.chdir(folder):
            assert main([*command, "--command-config", "client.properties"]) == 0


@pytest.mark.parametrize("block", blocks("java"), ids=named)
def test_java_runs(block: Block, mock_kafka: MockKafka, tmp_path: Path) -> None:
    jars = kafka_jars()
    source = tmp_path / "Orders.java"
    source.write_text(block.code.replace("localhost:9092", mock_kafka.bootstrap_servers), encoding="utf-8")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, str(source)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr
    (row,) = mock_kafka.trace.produce("orders")
    assert (row.verdict, row.software, row.acks, row.first_sequence) == ("accepted", "apache-kafka-java/4.3.1", -1, 0)


class Shown(NamedTuple):
    """A command that a page shows after `$ `, and the output that it shows."""

    where: str
    command: str
    output: str


def shown_commands() -> list[Shown]:
    found = []
    for block in blocks("console"):
        code = block.code.replace("\\\n", " ")
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", code, re.MULTILINE):
            found.append(Shown(named(block), re.sub(r" {2,}(#.*)?", " ", command).strip(), output))
    return found


OURS = re.compile(r"(?:wirebroker|scripts/run) (\w+) ?(.*)")
ELSEWHERE = {
    "curl": "test_the_control_responds_to_curl_as_shown", "docker": "test_docker.py", "until docker": "test_docker.py",
    "go test": "test_go_runs", "venv-pack": "audit_spark/test_submit.py", "spark-submit": "audit_spark/test_submit.py",
    "spark-class": "audit_spark/test_submit.py",
    "tshark": "test_a_capture_is_shown_as_shown",
    "pip install": "test_the_extras_that_are_shown_exist", "./wirebroker.pyz": "scripts/build-zipapp",
    "./wirebroker-runtime-": "scripts/build-runtime",
}  # fmt: skip
"""For each command that is not wirebroker's, the test that runs it."""


def of_ours(*names: str) -> list[Any]:
    """For each place where a page shows one of the wirebroker commands `names`, returns its arguments and the output on the
    page.
    """
    found = [(shown, OURS.match(shown.command)) for shown in shown_commands()]
    return [
        pytest.param([match[1], *shlex.split(match[2])], shown.output, id=f"{shown.where} {match[1]}")
        for shown, match in found
        if match and match[1] in names and "bad-input.md" not in shown.where
    ]


def test_every_command_that_is_shown_has_a_test() -> None:
    ours = {
        "serve",
        "scenario",
        "audit",
        "demo",
        "conformance",
        "proxy",
        "decode",
        "encode",
        "trace",
        "dissector",
        "diff",
        "replay",
        "explain",
        "explore",
        "learn",
    }
    for shown in shown_commands():
        command = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", shown.command)  # without the variables before it
        match = OURS.match(command)
        assert match[1] in ours if match else command.startswith(tuple(ELSEWHERE)), shown


@pytest.mark.parametrize(("arguments", "output"), of_ours("serve"))
def test_a_broker_starts_as_shown(arguments: list[str], output: str, tmp_path: Path) -> None:
    free = ["0" if before == "--control" else each for before, each in pairwise(["", *arguments])]
    command = [sys.executable, "-m", "wirebroker.commands.cli", *free, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        lines, last = [], (output.splitlines() or ["ready"])[-1]
        for line in process.stdout:
            lines.append(line)
            if line.rstrip("\n") == last:
                process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    without_ports = [re.sub(r":\d+", ":", text) for text in ("".join(lines), output)]
    assert output == "" or without_ports[0] == without_ports[1]


def test_a_cluster_is_learned_as_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn_as_shown(tmp_path)
    (learned, compared) = [each for each in shown_commands() if each.command.startswith("wirebroker learn")]
    address = re.compile(r"127\.0\.0\.1:\d+")
    assert address.sub("kafka-1:9093", capsys.readouterr().out) == learned.output
    text = (tmp_path / "prod.toml").read_text(encoding="utf-8")
    (tmp_path / "stage.toml").write_text(text.replace("[1, 2, 3], ", "").replace("2000000", "1000000"), encoding="utf-8")
    with contextlib.chdir(tmp_path):
        assert main(shlex.split(compared.command)[1:]) == 1
    assert capsys.readouterr().out == compared.output
    for part in page("like.md").split("```toml\n")[1:]:
        assert part.partition("```")[0].strip() in text


@pytest.mark.parametrize(("arguments", "output"), of_ours("proxy"))
def test_a_proxy_shows_verdicts_as_shown(arguments: list[str], output: str, mock_kafka: MockKafka) -> None:
    command = [sys.executable, "-m", "wirebroker.commands.cli", *arguments, "--listen", "127.0.0.1:0"]
    mock_kafka.create_topic("orders")
    command[command.index("--upstream") + 1] = mock_kafka.bootstrap_servers
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, contextlib.ExitStack() as at_failure:
        at_failure.callback(process.kill)
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        port = int(re.findall(r":(\d+)", lines[0])[0])
        line = Dialogue(SimpleNamespace(bootstrap_servers=f"127.0.0.1:{port}"))
        (
            line
            >> seq(0, 2)
            << accepted(at=0)
            >> seq(3, 5)
            << accepted(at=3)
            >> seq(0, 2)
            << accepted(at=0)
            >> seq(7)
            << refused(45)
        )
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
        assert process.wait(20) == 0
    printed, shown = (re.sub(r"\d\d:\d\d:\d\d\.\d+|[\w.-]+:\d+", "", text) for text in ("".join(lines), output))
    assert printed == shown


@pytest.mark.parametrize(("arguments", "output"), of_ours("decode", "encode"))
def test_bytes_are_decoded_as_shown(arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out == output


PROGRAMS = ("wirebroker trace", "wirebroker diff", "wirebroker replay", "tshark")


def test_a_capture_is_shown_as_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    mock_kafka_factory: Callable[..., MockKafka],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with MockKafka(topics={"orders": 1}, capture="session.pcapng") as kafka:
        producer = RawProducer(kafka)
        for first, last in ((0, 2), (3, 5), (3, 5), (9, 9)):
            producer.send(first, last)
        sessions = {"before.pcapng": ((0, 2), (3, 5), (6, 6)), "after.pcapng": ((0, 2), (3, 5), (3, 5), (9, 9))}
    for name, batches in sessions.items():
        with MockKafka(topics={"orders": 1}, capture=name) as kafka:
            producer = RawProducer(kafka)
            for first, last in batches:
                producer.send(first, last)
    Path("incident.pcap").write_bytes(Path("session.pcapng").read_bytes())
    assert main(["dissector"]) == 0
    Path("kafka.lua").write_text(capsys.readouterr().out, encoding="utf-8")
    shown = [each for each in shown_commands() if each.command.startswith(PROGRAMS) and not each.command.endswith(" --page")]
    assert len(shown) == 5
    kafka = mock_kafka_factory(topics={"orders": 1})
    for each in shown:
        program, *arguments = shlex.split(each.command.replace("localhost:9092", kafka.bootstrap_servers))
        if program == "wirebroker":
            assert main(arguments) == (arguments[0] == "diff")
            assert without_times(capsys.readouterr().out) == without_times(each.output)
        elif shutil.which("tshark") is not None:
            assert subprocess.run([program, *arguments], capture_output=True, text=True, timeout=40).stdout == each.output


@pytest.mark.parametrize(("arguments", "output"), of_ours("scenario"))
def test_a_scenario_runs_as_shown(arguments: list[str], output: str) -> None:
    command = [sys.executable, "-m", "wirebroker.commands.cli", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert run.returncode in (0, 1), run.stderr
    assert output in run.stdout


@pytest.mark.parametrize(("arguments", "output"), of_ours("audit", "demo", "conformance", "explore"))
def test_a_command_that_takes_long_is_understood(arguments: list[str], output: str) -> None:
    """Other tests run the commands that take long. This test only parses the flags of these commands, and checks that the page
    shows the right size of the conformance run."""
    assert build_parser().parse_args(arguments).command.rpartition(".")[2] == arguments[0]
    if arguments == ["conformance"]:
        scenarios = load()
        steps = sum(len(scenario.steps) for scenario in scenarios)
        assert output.startswith(f"{len(scenarios)} of {len(scenarios)} scenarios agree with Kafka in every step ({steps} ")


def test_the_extras_that_are_shown_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    texts = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    assert {extra for each in re.findall(r"(?:wirebroker|\.)\[([a-z,]+)\]", texts) for extra in each.split(",")} <= set(extras)


# Output


def test_readme_shows_the_output_of_the_demo(mock_kafka: MockKafka) -> None:
    out = io.StringIO()
    assert demonstrate(mock_kafka, Screen(out), clients=()) == 0
    shown = README.partition("<!-- printed by the demo -->\n```text\n")[2].partition("```")[0]
    assert shown.startswith("B2")
    assert shown in out.getvalue()


def shown_after(text: str, remark: str) -> str:
    """Returns the fenced block after a remark. In the block, the same time replaces all times of day."""
    return without_times(text.partition(f"<!-- {remark} -->\n```text\n")[2].partition("```")[0])


def without_times(text: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "12:30:05.250", text)


def test_readme_shows_the_output_of_serve() -> None:
    code = next(block.code for block in blocks("python") if block.path.name == "README.md")
    out = io.StringIO()
    with MockKafka(topics={"orders": 1}, cold_start=True) as kafka:
        run = subprocess.run([sys.executable, "-c", code.replace("localhost:9092", kafka.bootstrap_servers)], timeout=40)
        assert run.returncode == 0
        for row in kafka.trace.produce("orders"):
            ConsoleSink(out)(row)
    assert without_times(out.getvalue()) == shown_after(README, "printed by serve")


def test_readme_shows_how_its_test_fails_without_idempotence(pytester: pytest.Pytester) -> None:
    (block,) = (block for block in blocks("python") if block.path.name == "README.md" and "def test_" in block.code)
    code = block.code.replace("enable_idempotence=True", "enable_idempotence=False")
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess(*FEW_PLUGINS)  # the failed test does not close its client
    result.assert_outcomes(failed=1)
    for line in shown_after(README, "printed by pytest").splitlines():
        assert line in result.outlines


def test_readme_shows_a_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        for first, last in ((0, 9), (10, 19), (20, 29), (20, 29), (40, 49)):
            producer.send(first, last)
        file.write_text("".join(row.as_json() + "\n" for row in kafka.trace.produce()), encoding="utf-8")
    assert main(["trace", "show", str(file), "--timeline"]) == 0
    assert without_times(capsys.readouterr().out) == shown_after(README, "printed by trace show")


def test_the_page_on_testing_shows_the_message_of_the_audit() -> None:
    flow = find("B4")
    result = play(flow, flow.parts[0], "wire")
    with pytest.raises(AssertionError) as failed:
        result.audit.assert_exactly_once()
    assert shown_after(page("testing.md"), "printed by the audit") == f"{failed.value}\n"


def test_the_page_on_testing_shows_why_a_fault_never_fired(mock_kafka: MockKafka) -> None:
    mock_kafka.create_topic("orders")
    lost = mock_kafka.faults.add(faults.lose_ack(api="Produce", topic="oders"))
    RawProducer(mock_kafka).send(0)
    with pytest.raises(faults.NotFired) as failed:
        lost.assert_fired()
    assert shown_after(page("testing.md"), "printed by assert_fired") == f"{failed.value}\n"


def test_the_page_on_testing_shows_how_records_differ(mock_kafka: MockKafka) -> None:
    for item in ("tea", "milk", "salt"):
        mock_kafka.produce("orders", value={"item": item, "paid": True})
    expected = [subset({"item": each, "paid": True}) for each in ("tea", "coffee", "salt", "rice")]
    with pytest.raises(Difference) as failed:
        mock_kafka.assert_records("orders", expected, timeout=0.01)
    assert shown_after(page("testing.md"), "printed by assert_records") == f"{failed.value}\n"


def test_the_page_on_the_audit_shows_its_output() -> None:
    text = AUDIT.read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    shown = text.partition("<!-- printed by the block above -->\n```text\n")[2].partition("```")[0]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert run.stdout == shown, run.stderr


def test_the_page_on_the_trace_shows_the_sentences_of_verdicts(mock_kafka: MockKafka) -> None:
    mock_kafka.create_topic("orders")
    producer = RawProducer(mock_kafka)
    for sequence in (0, 1, 2, 2, 5):
        producer.send(sequence)
    rows = mock_kafka.trace.produce("orders")[2:]
    lines = "".join(f"{row.verdict:<9}  {row.explain}\n" for row in rows)
    assert f"```text\n{lines}```" in page("trace.md")


def test_readme_shows_the_result_of_conformance() -> None:
    scenarios = load()
    steps = sum(len(scenario.steps) for scenario in scenarios)
    line = f"{len(scenarios)} of {len(scenarios)} scenarios agree with Kafka in every step ({steps} steps)"
    assert f"$ scripts/run conformance\n{line}\n" in README


def test_the_page_on_bad_input_shows_the_messages_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in blocks("console") if block.path.name == "bad-input.md")
    shown = re.findall(r"^\$ wirebroker (.*)\n(.*\n)", block.code, re.MULTILINE)
    assert len(shown) == block.code.count("$ ")
    for command, said in shown:
        assert exit_code(command.split()) == 2
        assert capsys.readouterr().err == said


def exit_code(arguments: list[str]) -> object:
    """Returns the exit code of a command, even if argparse exits."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


# Tables


def test_the_table_of_profiles_matches_the_code() -> None:
    heading, *rows = table(page("profiles.md"), f"| rule | `kafka-{DEFAULT}`")
    shown = [rules for rules in PROFILES.values() if rules.release == DEFAULT]
    assert heading[1:] == [rules.name for rules in shown]
    names = [name for name in Rules.__struct_fields__ if name not in ("name", "release")]
    assert rows == [[name, *(str(getattr(rules, name)) for rules in shown)] for name in names]


def test_the_page_on_profiles_names_every_profile_and_rule() -> None:
    text = page("profiles.md")
    assert [row[0] for row in table(text, "| profile |")[1:]] == [
        rules.name for rules in PROFILES.values() if rules.release == DEFAULT
    ]
    rules = table(text, "| rule | values |")[1:]
    assert [row[0] for row in rules] == [name for name in Rules.__struct_fields__ if name not in ("name", "release")]
    for rule, values, _ in rules:
        if isinstance(getattr(Rules(), rule), int):
            continue
        for value in values.split(", "):
            assert getattr(Rules().with_setting(rule, value), rule) == value
        with pytest.raises(ValueError, match=re.escape(values)):
            Rules().with_setting(rule, "nothing")


def test_the_table_of_defaults_names_each_that_differs_from_kafka() -> None:
    ours = BrokerConfigs({})
    differing = {
        name: (BROKER_SETTINGS[name].default, value)
        for name, value in ours.static.items()
        if BROKER_SETTINGS[name].default != value
    }
    rows = table(page("conformance.md"), "| setting | Kafka | here |")[1:]
    assert {name: (kafka, here.split()[0]) for name, kafka, here in rows} == differing
    three = BrokerConfigs({}, brokers=3)
    assert {name for name, _, here in rows if "up to 3" in here} == {
        name for name, value in three.static.items() if value == "3" and ours.static[name] == "1"
    }


def test_the_page_on_the_trace_names_every_field_of_a_verdict() -> None:
    rows = table(page("trace.md"), "| field | type |")[1:]
    shown = {name: kind.replace("string", "str").replace("str or null", "str | None") for name, kind, _ in rows}
    hints = {name: hint for kind in ProduceRow.__mro__[::-1] for name, hint in getattr(kind, "__annotations__", {}).items()}
    known = {name: hints[name].replace("VerdictName", "str") for name in ProduceRow.__struct_fields__}
    assert list(shown.items()) == list(known.items())


def test_the_page_on_the_audit_names_every_field_of_a_journal() -> None:
    text = AUDIT.read_text(encoding="utf-8")
    assert [row[0] for row in table(text, "| field | |")[1:]] == list(FIELDS)


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "off"])
def test_the_recipes_for_jq_hold_at_every_level(
    level: str, tmp_path: Path, mock_kafka_factory: Callable[..., MockKafka]
) -> None:
    if shutil.which("jq") is None:
        lacking("jq", "jq is not installed")
    kafka = mock_kafka_factory(topics={"orders": 1}, trace=level)
    kafka.faults.add(faults.delay(1, api="Metadata"))
    producer = RawProducer(kafka)
    for sequence, acks in ((0, -1), (0, 1), (9, -1)):
        producer.send(sequence, acks=acks)
    producer.wire.request(MetadataRequest(topics=None), 9)
    rows = kafka.trace.events()
    assert {row.event for row in rows} >= {"produce", "fault", *LEVELS[level][:1]}
    (tmp_path / "trace.jsonl").write_text("".join(row.as_json() + "\n" for row in rows), encoding="utf-8")
    (block,) = (block for block in blocks("sh") if block.path.name == "trace.md")
    recipes = [question.partition("\n")[2] for question in block.code.split("# ")[1:]]
    responses = [
        subprocess.run(recipe, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
        for recipe in recipes
    ]
    client = "wirebroker-conformance"
    assert responses == [
        kafka.trace.produce()[2].explain.split(),
        ["1", client, "accepted", "1", client, "duplicate", "1", client, "rejected"],
        ["[", "{", '"topic":', '"orders",', '"first":', "0,", '"times":', "2", "}", "]"],
        [f'{{"client_id":"{client}","topic":"orders","note":"idempotent', "with", 'acks=1"}'],
    ]


def test_the_page_on_conformance_names_the_clients_and_checks_of_interop() -> None:
    from ecosystem.interop.checks import CHECKS
    from ecosystem.interop.clients import CLIENTS

    headings, *rows = table(page("conformance.md"), "| client | version |")
    secured, *others = table(page("conformance.md"), "| client | tls |")
    assert headings[2:] + secured[1:] == [check.replace("-", " ") for check in CHECKS]
    assert [row[0] for row in rows] == list(CLIENTS)
    assert {row[0] for row in others} < set(CLIENTS)
    assert {mark for row in rows for mark in row[2:]} == {mark for row in others for mark in row[1:]} == {"✓", "–"}


def test_the_page_on_conformance_counts_the_tests_of_the_clients_suites() -> None:
    _, *rows = table(page("conformance.md"), "| suite | version |")
    for name, _, _, passing, _ in rows:
        recorded = ROOT / "ecosystem" / "suites" / "expected" / f"{name}.txt"
        assert len(recorded.read_text(encoding="utf-8").splitlines()) == int(passing)


# The control


@pytest.fixture
def controlled(mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 3}, control=True)


def send_an_order(kafka: MockKafka) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.send("orders", b"a pound of tea", partition=0).get(timeout=10)
    producer.close()


@pytest.mark.parametrize(("name", "count"), [("control.md", 6)])
def test_the_control_responds_to_curl_as_shown(name: str, count: int, controlled: MockKafka) -> None:
    if shutil.which("curl") is None:
        lacking("curl", "curl is not installed")
    shown = [b for b in blocks("console") if b.path.name == name and b.code.startswith("$ curl")]
    here = controlled.control_url.removeprefix("http://").replace("127.0.0.1", "localhost")
    for block in shown:
        for command, said in re.findall(r"^\$ (curl .*)((?:\n(?!\$ ).*)*)", block.code, re.MULTILINE):
            asked = shlex.split(command.replace("localhost:9099", here))
            run = subprocess.run(asked, capture_output=True, text=True, check=True)
            expected = ".*".join(map(re.escape, said.strip().split("…")))
            assert re.fullmatch(expected, run.stdout.strip()), (named(block), command, run.stdout)
        if "lose_ack" in block.code and "assert-fired" in block.code:
            send_an_order(controlled)
    assert len(shown) == count


@pytest.mark.timeout(300)
def test_javascript_runs_with_kafkajs(controlled: MockKafka, tmp_path: Path) -> None:
    from ecosystem.interop.clients import fetched, node_folder

    if shutil.which("node") is None:
        lacking("node", "node is not installed")
    if not fetched("kafkajs"):
        lacking("node", "kafkajs was not fetched; scripts/interop --fetch --clients kafkajs does that")
    (tmp_path / "node_modules").symlink_to(node_folder() / "node_modules")
    client, test = (block.code for block in blocks("js"))
    environment = os.environ | {"CONTROL": controlled.control_url, "BOOTSTRAP": controlled.bootstrap_servers}

    def outcome(client: str, test: str) -> str:
        (tmp_path / "orders.mjs").write_text(client, encoding="utf-8")
        (tmp_path / "shown.test.mjs").write_text(test, encoding="utf-8")
        command = ["node", "--test", "shown.test.mjs"]
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50)
        return "passed" if run.returncode == 0 else run.stdout

    assert outcome(client, test) == "passed"
    assert [row.verdict for row in controlled.trace.produce("orders")] == ["accepted", "duplicate"]
    assert outcome(client.replace("key: id, ", ""), test) != "passed", "the test must fail without a key, as the page says"
    (doubled,) = controlled.audit().findings
    assert doubled.kind == "partition_duplicate"


@pytest.mark.slow  # the first run compiles net/http
@pytest.mark.timeout(240)
def test_go_runs(controlled: MockKafka, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        lacking("go", "Go is not installed")
    (block,) = blocks("go")
    client = (
        f"from kafka import KafkaProducer\nproducer = KafkaProducer(bootstrap_servers={controlled.bootstrap_servers!r})\n"
        'import sys\nproducer.send("orders", sys.argv[1].encode()).get(timeout=10)\n'
    )
    (tmp_path / "go.mod").write_text("module orders\n\ngo 1.21\n", encoding="utf-8")
    (tmp_path / "orders.go").write_text(
        'package orders\n\nimport "os/exec"\n\nfunc sendOrder(order string) {\n'
        f'\tif err := exec.Command({json.dumps(sys.executable)}, "-c", {json.dumps(client)}, order).Run(); err != nil {{\n'
        "\t\tpanic(err)\n\t}\n}\n",
        encoding="utf-8",
    )
    environment = os.environ | {"CONTROL": controlled.control_url, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    for code, passes in ((block.code, True), (block.code.replace('"nth": 1', '"nth": 9'), False)):
        (tmp_path / "shown_test.go").write_text(code, encoding="utf-8")
        run = subprocess.run(["go", "test"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
        assert (run.returncode == 0) is passes, run.stdout + run.stderr
        assert passes or "did not fire at all" in run.stdout


def test_readme_counts_the_apis() -> None:
    assert f"{len(SERVED)} APIs are served" in README


# Behaviours


def test_the_page_on_behaviours_names_every_id_and_its_tests() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from behaviours_parts.page import promises, tests_by_id, with_tests
    finally:
        sys.path.pop(0)
    text = page("behaviours.md")
    assert set(promises(text)) == set(tests_by_id()), "the page and the tests' names have different ids"
    assert text == with_tests(text), "run scripts/behaviours"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_id_in_a_text_is_on_the_page_on_behaviours(path: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"(?<![\w-])[A-E][0-9]+b?(?![\w-])", prose))
    assert named <= set(re.findall(r"^\| ([A-E]\d+b?) \|", page("behaviours.md"), re.MULTILINE))


# Names


def test_the_map_of_folders_names_every_folder() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("```\n")[2].partition("```")[0]
    shown: list[str] = []
    top = ""
    for line in text.splitlines():
        name, folder, _ = line.lstrip().partition("/ ")
        if not folder:
            continue
        if line.startswith(" "):
            shown.append(f"{top}/{name}")
        else:
            shown.append(name)
            top = name
    roots = [root for root in shown if root.count("/") == 1 and not root.startswith("scripts")]
    folders = {
        path.relative_to(ROOT).as_posix()
        for root in roots
        for path in (ROOT / root).rglob("*")
        if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.*"))
    }
    assert {name for name in shown if name not in ("tests", "scripts", "bench", "clients", "ecosystem")} == folders | set(roots)


def flags_of_ours() -> set[str]:
    found: set[str] = set()
    parsers = [build_parser()]
    for parser in parsers:
        for action in parser._actions:
            found |= set(action.option_strings)
            if isinstance(action.choices, dict):
                parsers += action.choices.values()
    return found


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_flags_and_commands_exist(path: Path) -> None:
    text = re.sub(
        r"^(?:kafka-[a-z-]+\.sh|python -m kafka\.admin) .*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - OF_OTHERS
    ours = flags_of_ours()
    files = [path for path in (ROOT / "scripts").iterdir() if path.is_file()] + list((ROOT / "ecosystem").rglob("*.py"))
    scripts = "".join(path.read_text(encoding="utf-8") for path in files)
    assert {flag for flag in shown if flag not in ours and flag not in scripts and flag != "--strict"} == set()
    commands = re.findall(r"(?:`|\$ )(?:wirebroker|scripts/run) ([a-z]+)", text)
    (known,) = (set(action.choices) for action in build_parser()._actions if isinstance(action.choices, dict))
    assert set(commands) <= known


def test_a_page_names_each_flag() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    assert [flag for flag in flags_of_ours() if flag.startswith("--") and not re.search(rf"{flag}(?![\w-])", texts)] == []


def views_of_the_live_page() -> list[str]:
    source = (ROOT / "tools" / "wirebroker_tools" / "live" / "files" / "app.js").read_text(encoding="utf-8")
    return source.partition("const VIEWS = {")[2].partition("}")[0].replace(" ", "").split(",")


@pytest.mark.parametrize(
    ("name", "shown", "kinds"),
    [
        ("live.md", "| {} |", views_of_the_live_page()),
        ("live.md", "`1`–`{}` views", [len(views_of_the_live_page())]),
        ("pictures.md", "picture `{}`", PICTURES),
        ("security.md", "{}", SASL_MECHANISMS),
        ("scenarios.md", "`{}`", CLIENTS),
    ],
)
def test_a_page_names_each_of_a_kind(name: str, shown: str, kinds: Iterable[object]) -> None:
    text = page(name)
    assert [kind for kind in kinds if shown.format(kind) not in text] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_and_paths_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    paths = re.findall(r"(?<![\w/])(?:scripts|docs|tests|broker|protocol)/[\w./-]*\w", text.replace("X.Y", "3.9"))
    base = [path.parent] * len(links) + [ROOT] * len(paths)
    missing = [name for where, name in zip(base, [*links, *paths], strict=True) if not (where / name).exists()]
    assert missing == []


def test_the_site_has_every_page_and_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (tmp_path / page).is_file()} == set()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_methods_of_mock_kafka_exist(path: Path) -> None:
    with MockKafka() as kafka:
        for name in re.findall(r"\b(?:mock_)?kafka\.((?:\w+\.)?[a-z_]+)\(", path.read_text(encoding="utf-8")):
            found: object = kafka
            for part in name.split("."):
                found = getattr(found, part)
            assert callable(found)
