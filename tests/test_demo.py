"""`wirebroker demo` shows the verdicts, and fails if the broker's verdicts differ from the expected verdicts."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wirebroker.mock import MockKafka
from wirebroker_tools import drivers as clients
from wirebroker_tools.commands.demo import FLOWS, demonstrate
from wirebroker_tools.commands.demo.clients import CLIENTS, RECORDS
from wirebroker_tools.commands.demo.show import WIDTH, Screen
from wirebroker_tools.drivers import PACKAGES, aiokafka, confluent
from wirebroker_tools.scenarios.play import play
from wirebroker_tools.scenarios.reading import find
from wirebroker_tools.scenarios.scenario import Part, Scenario
from wirebroker_tools.scenarios.show import reason


def flow(name: str, **broker: Any) -> tuple[Scenario, Part]:
    """Returns a flow's scenario, and a copy of the scenario's first part that has the broker settings `broker`."""
    scenario = find(name)
    part = scenario.parts[0]
    return scenario, replace(part, broker=replace(part.broker, **broker))


def run(kafka: MockKafka, **parts: Any) -> tuple[int, str]:
    """Runs the demo, and returns its exit code and output."""
    out = io.StringIO()
    code = demonstrate(kafka, Screen(out), **({"clients": (), "flows": ()} | parts))
    return code, out.getvalue()


def seconds_of_children() -> float:
    """Returns the CPU time of ended child processes of this process."""
    used = os.times()
    return used.children_user + used.children_system


in_one_process = pytest.mark.xdist_group("demo")
"""Marks the tests that share a run of the demo."""


@pytest.fixture(scope="module")
def printed() -> str:
    before = seconds_of_children()
    done = subprocess.run(
        [sys.executable, "-m", "wirebroker.commands.cli", "demo", "--no-spark"], capture_output=True, text=True, timeout=150,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert seconds_of_children() - before < 20, "the demo takes too long"
    return done.stdout


@in_one_process
def test_every_client_and_every_flow_is_shown(printed: str) -> None:
    for client in CLIENTS:
        assert re.search(
            rf"^  {PACKAGES[client]} \d\S+ +ok  {RECORDS} acknowledged, {RECORDS} stored, {RECORDS} read",
            printed,
            re.MULTILINE,
        ), client
    assert re.findall(r"^(B\d)  ", printed, re.MULTILINE) == list(FLOWS)
    assert "DIFFERENT" not in printed
    assert "Everything went as expected, in" in printed


@in_one_process
def test_it_fits_a_hundred_columns_and_is_plain_where_there_is_no_terminal(printed: str) -> None:
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert "\x1b" not in printed
    assert not re.search(r" $", printed, re.MULTILINE)


@in_one_process
def test_verdicts_are_shown_with_their_reason(printed: str) -> None:
    b2 = printed.partition("\nB2")[2].partition("\nB3")[0]
    assert "  D        133–142    duplicate  offset 19  batch 2 of 5 in the window; not stored again\n" in b2
    b4 = printed.partition("\nB4")[2].partition("\nB7")[0]
    assert "  A        114–120    rejected   error 45   expected 156, got 114–120, older than the window\n" in b4
    assert "  A        0–6 e1     accepted   offset 42  the first of a new epoch\n" in b4
    assert re.search(r"^  B4 +42 +49 +7 +7 +5 +1$", printed, re.MULTILINE), "sent, stored, twice, and the verdicts"


def test_a_difference_is_shown_and_the_exit_code_is_1(mock_kafka: MockKafka) -> None:
    code, shown = run(mock_kafka, flows=(flow("B2", rules={"window": 1}),))
    assert code == 1
    assert "FINDING: it stores records twice; expected that it recovers" in shown
    assert find("B2").good_client not in shown
    assert "1 of 1 parts did not go as expected." in shown


def test_a_client_that_is_not_installed_is_skipped_by_name(mock_kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clients.PACKAGES, "aiokafka", "no-such-client")
    code, shown = run(mock_kafka, clients=("aiokafka",), flows=(flow("B7"),))
    assert code == 0
    assert "no-such-client          skipped, no-such-client is not installed: pip install no-such-client" in shown
    assert "as expected, 1 skipped" in shown


def test_a_client_that_fails_or_loses_a_record_is_a_difference(mock_kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(aiokafka.Producer, "start", refuse)
    code, shown = run(mock_kafka, clients=("aiokafka",))
    assert code == 1
    assert "aiokafka failed: ConnectionError: no route" in shown
    assert "expected that each record is stored once" in shown


def test_acknowledgements_of_other_offsets_are_a_difference(mock_kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    class OffByOne(confluent.Producer):
        def __init__(self, address: str, settings: clients.ProducerSettings, report: clients.Report) -> None:
            super().__init__(address, settings, lambda value, offset, error: report(value, offset + 1, error))

    monkeypatch.setattr(confluent, "Producer", OffByOne)
    code, shown = run(mock_kafka, clients=("confluent",))
    assert code == 1
    assert "expected that the acknowledged offsets are the stored offsets" in shown
    assert "stored once" not in shown


def test_a_reason_says_nothing_that_its_line_says_already() -> None:
    rows = [row for name in FLOWS for row in play(*flow(name), "wire").rows]
    assert all("producer " not in reason(row).replace("this producer", "").replace("a producer id", "") for row in rows)
    assert all(reason(row) and reason(row)[0].islower() for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("spark")
def test_the_demo_ends_with_the_audit_on_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "wirebroker", "demo"], capture_output=True, text=True, timeout=280,
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.partition("$ wirebroker audit --bootstrap ")[2]
    assert "no finding" in said
    (report,) = tmp_path.glob("wirebroker-demo-*/report/report.html")
    assert f"report: {report}" in said
