"""`wirebroker demo`: what it shows, and that a broker that decides otherwise makes it fail."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wirebroker.commands.demo import demonstrate
from wirebroker.commands.demo.clients import CLIENTS, RECORDS, Client
from wirebroker.commands.demo.flows import BATCHES, FLOWS, Flow, Step, play
from wirebroker.commands.demo.show import WIDTH, Screen, reason
from wirebroker.mock import MockKafka


def flow(name: str) -> Flow:
    return next(each for each in FLOWS if each.id == name)


def run(kafka: MockKafka, **parts: Any) -> tuple[int, str]:
    """Exit code and what was printed."""
    out = io.StringIO()
    code = demonstrate(kafka, Screen(out), **({"clients": (), "flows": ()} | parts))
    return code, out.getvalue()


@pytest.fixture(scope="module")
def printed() -> str:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "wirebroker.cli", "demo"], capture_output=True, text=True, timeout=50,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 20, "a demo that takes long is not looked at"
    return done.stdout


def test_every_client_and_every_flow_is_shown(printed: str) -> None:
    for client in CLIENTS:
        assert re.search(
            rf"^  {client.package} \d\S+ +ok  {RECORDS} acknowledged, {RECORDS} stored, {RECORDS} read",
            printed,
            re.MULTILINE,
        ), client
    assert re.findall(r"^(B\d)  ", printed, re.MULTILINE) == ["B1", "B2", "B3", "B4", "B7"]
    assert "DIFFERENT" not in printed
    assert "Everything went as expected, in" in printed


def test_it_fits_a_hundred_columns_and_is_plain_where_there_is_no_terminal(printed: str) -> None:
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert "\x1b" not in printed
    assert not re.search(r" $", printed, re.MULTILINE)


def test_verdicts_are_shown_with_their_reason(printed: str) -> None:
    b2 = printed.partition("\nB2")[2].partition("\nB3")[0]
    assert "  D  133–142  duplicate  offset 19  batch 2 of 5 in the window; not stored again\n" in b2
    b4 = printed.partition("\nB4")[2].partition("\nB7")[0]
    assert "  A  114–120  rejected   error 45   expected 156, got 114–120, older than the window\n" in b4
    assert "  B  121–124  rejected   error 47   this producer is fenced by its epoch 1\n" in b4
    assert re.search(r"^  B4 +42 +49 +7 +7 +0 +2$", printed, re.MULTILINE), "sent, stored, twice, and the verdicts"


@pytest.mark.parametrize("each", FLOWS, ids=lambda each: each.id)
def test_each_flow_goes_as_the_table_says(mock_kafka: MockKafka, each: Flow) -> None:
    result = play(each, mock_kafka)
    assert result.differences == []
    assert [row.verdict for row in result.rows] == [step.verdict for step in each.steps]
    letters = "".join(record.value.decode()[0] for record in mock_kafka.records(f"flow-{each.id}") if record.value)
    assert letters == "".join(name * (BATCHES[name][1] - BATCHES[name][0] + 1) for name in each.log)


def test_b4_without_its_extra_batch_is_inside_the_window(mock_kafka: MockKafka) -> None:
    five = tuple(step for step in flow("B4").steps[:6] if step.batch != "F")
    within = flow("B4")._replace(steps=(*five, Step("A", "duplicate", 0)), log="ABCDE")
    assert play(within, mock_kafka).differences == []


OTHERWISE: list[tuple[dict[str, Any], set[str]]] = [
    ({"rules": {"window": 1}}, {"B2"}),
    ({"rules": {"window": 6}}, {"B4"}),
    ({"profile": "textbook"}, {"B1", "B2", "B3", "B4"}),
]


@pytest.mark.parametrize(("settings", "differing"), OTHERWISE, ids=["window=1", "window=6", "textbook"])
def test_a_broker_that_decides_otherwise_is_noticed(
    mock_kafka_factory: Callable[..., MockKafka], settings: dict[str, Any], differing: set[str]
) -> None:
    kafka = mock_kafka_factory(**settings)
    assert {each.id for each in FLOWS if play(each, kafka).differences} == differing


def test_a_difference_is_shown_and_the_exit_code_is_1(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    code, shown = run(mock_kafka_factory(rules={"window": 1}), flows=(flow("B2"),))
    assert code == 1
    assert "step 6, batch D: the answer is code 45, offset -1; expected code 0, offset 19" in shown
    assert "step 6, batch D: the verdict is rejected; expected duplicate" in shown
    assert flow("B2").moral not in shown
    assert "1 of 1 parts went otherwise than expected." in shown


def test_a_log_that_holds_something_else_is_a_difference(mock_kafka: MockKafka) -> None:
    wrong = flow("B1")._replace(log="ABCED")
    assert play(wrong, mock_kafka).differences == ["the log holds 37 records of ABCDE; expected 37 of ABCED"]


def test_a_client_that_is_not_installed_is_skipped_by_name(mock_kafka: MockKafka) -> None:
    absent = replace(CLIENTS[0], package="no-such-client")
    code, shown = run(mock_kafka, clients=(absent,), flows=(flow("B7"),))
    assert code == 0
    assert "no-such-client          skipped, not installed: pip install no-such-client" in shown
    assert "as expected, 1 skipped" in shown


def test_a_client_that_fails_or_loses_a_record_is_a_difference(mock_kafka: MockKafka) -> None:
    def refuse(*_: object) -> list[tuple[int, int]]:
        raise ConnectionError("no route")

    code, shown = run(mock_kafka, clients=(Client("aiokafka", refuse, CLIENTS[1].consume),))
    assert code == 1
    assert "aiokafka failed: ConnectionError: no route" in shown
    assert "expected that each record is stored once" in shown


def test_acknowledgements_of_other_offsets_are_a_difference(mock_kafka: MockKafka) -> None:
    def off_by_one(*arguments: Any) -> list[tuple[int, int]]:
        return [(partition, offset + 1) for partition, offset in CLIENTS[2].produce(*arguments)]

    code, shown = run(mock_kafka, clients=(Client("confluent-kafka", off_by_one, CLIENTS[2].consume),))
    assert code == 1
    assert "expected that the offsets acknowledged are those stored" in shown
    assert "stored once" not in shown


def test_a_reason_says_nothing_that_its_line_says_already(mock_kafka: MockKafka) -> None:
    rows = [row for each in FLOWS for row in play(each, mock_kafka).rows]
    assert all("producer " not in reason(row).replace("this producer", "").replace("a producer id", "") for row in rows)
    assert all(reason(row) and reason(row)[0].islower() for row in rows)
