"""Every recorded scenario is replayed on wirebroker. In each step, wirebroker's response is the same as the recorded response
of Kafka 4.3.1."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from wirebroker.commands.cli import main
from wirebroker_tools.commands.conformance import check_responses
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import Scenario, compare, deliberate, load, own_scenarios
from wirebroker_tools.conformance.replay import RemoteBroker, replay

SCENARIOS = load()


def test_the_recording_is_whole() -> None:
    assert len(SCENARIOS) == 302
    assert sum(len(scenario.steps) for scenario in SCENARIOS) == 3441


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_kafka_responds(scenario: Scenario) -> None:
    with OwnBroker(scenario.settings, secured=scenario.secured, telemetry=scenario.telemetry) as broker:
        _, differences = replay(scenario, broker)
    meant = [difference for difference in differences if deliberate(difference)]
    assert [difference for difference in differences if not deliberate(difference)] == []
    assert len(meant) == (1 if scenario.name == "empty_record_data" else 0)


NEWEST = own_scenarios("4.4")


@pytest.mark.parametrize("scenario", NEWEST, ids=lambda scenario: scenario.name)
def test_kafka_4_4_responds(scenario: Scenario) -> None:
    with OwnBroker(scenario.settings, profile="kafka-4.4", secured=scenario.secured) as broker:
        _, differences = replay(scenario, broker)
    assert differences == []


def _recorded(scenario: Scenario) -> list[dict[str, object]]:
    return [copy.deepcopy(row["observed"]) for row in scenario.steps]


DOCTORED = [
    ("dup_last", 4, "base_offset", 999),
    ("dup_last", 4, "log_append_time", -1),
    ("gap", 3, "error", "0 NONE"),
    ("seq0_first_ok", 3, "latest", 4),
    ("seq0_first_ok", 3, "producers", []),
    ("timestamp_out_of_range", 2, "record_errors", []),
    ("garbage_connection", 0, "conn", "timeout"),
]


@pytest.mark.parametrize(("name", "step", "key", "value"), DOCTORED)
def test_a_doctored_response_is_a_difference(name: str, step: int, key: str, value: object) -> None:
    (scenario,) = load(only=[name])
    observed = _recorded(scenario)
    assert key in observed[step]
    assert observed[step][key] != value
    observed[step][key] = value
    assert [difference.index for difference in compare(scenario, observed)] == [step]


def test_ids_are_compared_by_first_appearance() -> None:
    (scenario,) = load(only=["seq0_first_ok"])
    observed = json.loads(json.dumps(_recorded(scenario)).replace('"pid": 8', '"pid": 4711'))
    assert compare(scenario, observed) == []
    observed[3]["producers"][0]["pid"] = 1
    assert [difference.index for difference in compare(scenario, observed)] == [3]


def test_an_unknown_scenario_is_named() -> None:
    with pytest.raises(ValueError, match="there is no scenario nonsense"):
        load(only=["nonsense"])


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["conformance", "--only", "gap,dup_last,txn_zombie", "--json", str(report)]) == 0
    printed = capsys.readouterr().out
    assert "3 of 3 scenarios agree with Kafka in every step (29 steps)" in printed
    assert json.loads(report.read_text())["agreed"] == ["dup_last", "gap", "txn_zombie"]


def test_the_command_exits_1_on_a_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (scenario,) = load(only=["gap"])
    steps = copy.deepcopy(scenario.steps)
    steps[3]["observed"]["error"] = "0 NONE"
    file = tmp_path / "doctored.json"
    file.write_text(json.dumps({"scenarios": [{"name": "gap", "about": "", "ran_on": "main", "steps": steps}]}))
    assert main(["conformance", "--file", str(file)]) == 1
    assert "gap, step 3" in capsys.readouterr().out


def test_the_command_exits_2_on_what_it_cannot_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--only", "nonsense"]) == 2
    assert main(["conformance", "--bootstrap", "nowhere"]) == 2
    assert "is not host:port" in capsys.readouterr().err


def test_nobody_at_the_address_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--bootstrap", "127.0.0.1:1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("wirebroker conformance: no Kafka broker responds at 127.0.0.1:1: ")
    assert printed.err.count("\n") == 1


def test_a_broker_that_goes_away_ends_the_run_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with OwnBroker({}) as broker:
        remote = RemoteBroker(*broker.address)
        check_responses(remote)
    with pytest.raises(ConnectionError, match="no Kafka broker responds at"):
        check_responses(remote)
