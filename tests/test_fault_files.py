"""Fault files: their rules in TOML, error messages with line numbers, the JSON schema, and the command line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dialogue import Dialogue, refused, tagged
from inprocess import InProcess
from requesting import produce_request
from responses import only
from wirebroker import faults
from wirebroker.client.wire import ConnectionClosed, WireClient
from wirebroker.faults.files import FaultFileError, dump, file_kinds, load, loads, parse, schema
from wirebroker.mock import MockKafka
from wirekit import RawProducer

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs" / "reference" / "faults.schema.json"
GOOD = """
seed = 7

[[fault]]
kind = "lose_ack"
api = "Produce"
topic = "orders"
nth = [2, 5]

[[fault]]
kind = "error"
code = "NOT_LEADER_OR_FOLLOWER"
topic = "orders"
partition = 1
times = 3
"""


def test_a_file_and_python_make_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(GOOD)
    loaded = load(path)
    said = [
        faults.lose_ack(api="Produce", topic="orders", nth=[2, 5]),
        faults.error("NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1, times=3),
    ]
    assert [rule.described() for rule in loaded.rules] == [rule.described() for rule in said]
    assert loaded.seed == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[fault]]\nkind = "lose_ack"\ntopik = "a"', r":3: lose_ack has no option 'topik'; did you mean 'topic'"),
        ('[[fault]]\nkind = "lose_akc"', r":2: there is no kind 'lose_akc'; did you mean 'lose_ack'"),
        ('[[fault]]\ntopic = "a"', r":1: this fault has no kind"),
        ('[[fault]]\nkind = "delay"', r":2: delay needs 'ms'"),
        ('[[fault]]\nkind = "delay"\nms = "long"', r":3: delay: ms must be a whole number of at least 1, not 'long'"),
        ('[[fault]]\nkind = "error"\ncode = "NO_SUCH"', r":3: error: Kafka has no error 'NO_SUCH'"),
        ('[[fault]]\nkind = "lose_ack"\n\n[[fault]]\nkind = "lose_ack"\napi = "Prodce"', r":6: there is no API 'Prodce'"),
        ('[[fault]]\nkind = "lose_ack"\nnth = 1\nevery = 2', r"nth and every contradict each other; give one of them"),
        ('[[fault]]\nkind = "refuse"\napi = "Produce"', r":3: refuse has no option 'api'"),
        ('[[fault]]\nkind = "truncate"\noffset = 3\ntopic = "a"', r":2: truncate needs 'partition'"),
        ('[[fault]]\nkind = "fail_write"\napi = "Fetch"', r":3: fail_write does not apply to Fetch, only to Produce"),
        ('[[fault]]\nkind = "delay"\nms = 1\npartition = 0\nprobability = 2', r":5: delay: probability must be a number gr"),
        ('[[fault]]\nkind = "corrupt"\nat = 3\nevery = 0', r":4: corrupt: every must be a whole number of at least 1, not 0"),
        ('[[fault]]\nkind = "throttle"\nms = -5', r":3: throttle: ms must be a whole number from 1 to 2147483647, not -5"),
        ('[[fault]]\nkind = "lose_ack"\nself = 1', r":3: lose_ack has no option 'self'"),
        ("seeds = 3", r":1: a fault file has no 'seeds'; did you mean 'seed'"),
        ('seed = "x"', r":1: seed must be a whole number, not 'x'"),
        ('[fault]\nkind = "lose_ack"', r"write each rule as a table \[\[fault\]\]"),
        ("[[fault", r"this is not TOML"),
        ("seed = " + "9" * 5000, r"this is not TOML: Exceeds the limit"),
        ("a = " + "[" * 20_000, r"this is not TOML"),
    ],
)
def test_an_error_names_the_line_and_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(FaultFileError, match=message):
        load(path)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_bytes(b"seed = 1 # \x80")
    with pytest.raises(FaultFileError, match=r"faults.toml: this is not UTF-8: "):
        load(path)


def test_thousands_of_faults_are_read_within_a_second() -> None:
    text = '[[fault]]\nkind = "delay"\nms = 1\n' * 2000
    begun = time.process_time()
    assert len(loads(text, "many.toml").rules) == 2000
    assert time.process_time() - begun < 1


def test_rules_are_written_as_they_are_read() -> None:
    made = [
        faults.lose_request(api=["Produce", "Fetch"], version=(3, 9), then="silence", name="first"),
        faults.lose_ack(nth=2, name="\x7f and \x1b"),
        faults.error(45, sequence=(5, 9), probability=0.25, after=True),
        faults.delay(20, every=3, times=2),
        faults.reorder(2, node=1),
        faults.observe(api="Produce", topic="orders"),
        faults.throttle(5, group="team"),
        faults.disconnect(client_id='a"b', transactional_id="till"),
        faults.cut(9, request=True, api="Produce", nth=2),
        faults.slice(7, ms=0),
        faults.bandwidth(100),
        faults.corrupt(2, at=-3, topic="orders"),
        faults.reset(after=True),
        faults.refuse(node=2, every=2),
        faults.close(ms=10),
        faults.fail_write(partition=1),
        faults.slow_write(5),
        faults.disk_full(topic="orders"),
        faults.crash_after_write(nth=[1, 3]),
        faults.expire_producer(producer_id=3),
        faults.expire_transactional_id("till"),
        faults.fence("till", api="EndTxn"),
        faults.expire_session(principal="User:alice"),
        faults.withdraw_acl("allow User:alice READ TOPIC orders", nth=2),
        faults.slow_reassignment(2000, api="AlterPartitionReassignments"),
        faults.expire_member(group="team"),
        faults.move_leader(topic="orders", nth=2),
        faults.move_coordinator(group="team"),
        faults.advance(60_000, api="EndTxn"),
        faults.restart(mode="kill"),
        faults.upgrade("kafka-4.4", 100, api="EndTxn", nth=1),
        faults.truncate(4, topic="orders", partition=0),
        faults.lose_coordinator(group="team"),
        faults.stall_handshake(5, listener="SSL", nth=2),
        faults.expire_certificate(node=2),
    ]
    assert {rule.kind for rule in made} == set(file_kinds())
    again = parse(tomllib.loads(dump(made, 42)), "again")
    assert [rule.described() for rule in again.rules] == [rule.described() for rule in made]
    assert again.seed == 42
    jsonschema.validate(tomllib.loads(dump(made, 42)), schema())


def test_docs_and_schema_are_those_of_the_kinds() -> None:
    script = ROOT / "scripts" / "generate-docs"
    run = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert {each["properties"]["kind"]["const"] for each in schema()["properties"]["fault"]["items"]["oneOf"]} == set(
        file_kinds()
    )


def test_the_documentation_has_every_kind_with_an_example_that_makes_one() -> None:
    text = (ROOT / "docs" / "how-to" / "faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| `(faults\..*)` \|$", text, re.MULTILINE)
    assert [kind for kind, _ in rows if eval(example_of(rows, kind)).kind != kind] == []
    assert {kind for kind, _ in rows} == {*file_kinds(), "answer"}


def example_of(rows: list[tuple[str, str]], kind: str) -> str:
    return dict(rows)[kind]


def test_the_schema_accepts_what_the_loader_accepts() -> None:
    jsonschema.validate(tomllib.loads(GOOD), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads('[[fault]]\nkind = "lose_ack"\ntopik = "a"'), schema())


@pytest.mark.mock_kafka(topics=["orders"])
def test_a_broker_loads_a_file_and_writes_one(mock_kafka: MockKafka, tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(GOOD)
    lost, _ = mock_kafka.faults.load(path)
    producer = RawProducer(mock_kafka)
    producer.send(0)
    with pytest.raises(ConnectionClosed):
        producer.send(1)
    lost.assert_fired(1)
    assert len(parse(tomllib.loads(mock_kafka.faults.as_toml()), "again").rules) == 2


def serve(*arguments: str) -> tuple[subprocess.Popen[str], WireClient]:
    process = subprocess.Popen(
        [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", "--topic", "orders", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    port = process.stdout.readline().split()[2].rpartition(":")[2]
    assert process.stdout.readline() == "ready\n"
    return process, WireClient("127.0.0.1", int(port))


def test_a_rule_that_is_loaded_again_and_fires_is_not_reported() -> None:
    broker = InProcess(topics=["orders"])
    rule, plan = faults.error("REQUEST_TIMED_OUT", api="Produce"), broker.engine.plan
    for change in (plan.add, plan.remove, plan.add):
        change(rule)
    assert plan.unfired() == [rule]
    Dialogue(broker) >> tagged("a") << refused(7)
    assert plan.unfired() == []


@pytest.mark.parametrize("fires", [True, False])
def test_require_fired(tmp_path: Path, fires: bool) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nkind = "error"\ncode = 7\napi = "Produce"\n')
    process, wire = serve("--faults", str(path), "--require-fired")
    if fires:
        response: Any = wire.request(produce_request("orders", b"\0" * 61), 9)
        assert only(response).error_code == 7
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == (0 if fires else 1)
    assert ("never fired" in errors) is not fires


def test_a_bad_file_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nkind = "lose_akc"\n')
    run = subprocess.run(
        [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", "--faults", str(path)],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == (f"wirebroker serve: --faults: {path}:2: there is no kind 'lose_akc'; did you mean 'lose_ack'?\n")


def test_a_failed_test_prints_the_faults_as_a_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from wirebroker import faults

        def test_it(mock_kafka):
            mock_kafka.faults.add(faults.lose_ack(api="Produce", nth=3))
            assert False
        """
    )
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["*its faults, as the text of a*", 'kind = "lose_ack"', "nth = 3", "# fired 0 of 0*"])
