"""The recordings of other releases: how they are stored and compared. Each recording must belong to a release that wirebroker
knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wirebroker.commands.cli import main
from wirebroker.core.releases import release
from wirebroker_tools.conformance import log_dir_steps, readiness
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import LEFT_OUT, Scenario, compare, load
from wirebroker_tools.conformance.releases import MODES, ReleaseRecording, read, recorded_releases, release_recording
from wirebroker_tools.conformance.replay import play
from wirebroker_tools.conformance.run import Run

FENCED = {"error": "47 INVALID_PRODUCER_EPOCH", "base_offset": -1}


def _observed(scenario: Scenario, **changes: Any) -> list[Any]:
    """Returns the observations of each step in 4.3.1, with changes in some steps. For example, `step_3` replaces the
    observation of the fourth step."""
    return [changes.get(f"step_{index}", row["observed"]) for index, row in enumerate(scenario.steps)]


@pytest.fixture
def gap() -> Scenario:
    (scenario,) = load(only=["gap"])
    return scenario


@pytest.fixture
def recording() -> ReleaseRecording:
    return ReleaseRecording("2.8.2", "Apache Kafka 2.8.2 (ZooKeeper)")


def test_only_steps_that_differ_are_kept(gap: Scenario, recording: ReleaseRecording, tmp_path: Path) -> None:
    recording.add(gap, "named", [_observed(gap, step_3=FENCED)] * 2)
    recording.add(gap, "clamped", [_observed(gap)] * 2)
    recording.write(tmp_path / "kept")
    again = read((tmp_path / "kept").read_bytes())
    assert (again.named, again.clamped) == ({"gap": {"3": FENCED}}, {})
    (expected,) = again.scenarios("named", ["gap"])
    assert compare(expected, _observed(gap, step_3=FENCED)) == []
    assert [each.index for each in compare(expected, _observed(gap))] == [3]


def test_a_step_that_does_not_repeat_is_left_out(gap: Scenario, recording: ReleaseRecording) -> None:
    recording.add(gap, "named", [_observed(gap, step_3=FENCED), _observed(gap)])
    (expected,) = recording.scenarios("named", ["gap"])
    assert recording.left_out["named"] == {"gap": [3]}
    assert expected.expected is not None
    assert expected.expected[3] == LEFT_OUT
    assert compare(expected, _observed(gap, step_3={"conn": "closed"})) == []
    assert [each.index for each in compare(expected, _observed(gap, step_2=FENCED))] == [2]


def test_ids_of_a_release_are_compared_by_first_appearance(gap: Scenario, recording: ReleaseRecording) -> None:
    observed = _observed(gap, step_3={"error": "0 NONE", "pid": 4711})
    recording.add(gap, "named", [observed, observed])
    (expected,) = recording.scenarios("named", ["gap"])
    assert compare(expected, _observed(gap, step_3={"error": "0 NONE", "pid": 4712})) == []


def test_clamped_versions_are_those_that_the_broker_announces() -> None:
    (scenario,) = load(only=["txn_zombie"])
    assert {13, 12} & {row["step"].get("v") for row in scenario.steps}
    with OwnBroker(scenario.settings, profile="kafka-2.8") as broker:
        runs = [Run(scenario, broker, versions) for versions in MODES]
        named, clamped = [play(run) for run in runs]
    assert [run.lowered for run in runs] == [True, True]
    assert {"conn": "closed"} in named
    assert {"conn": "closed"} not in clamped


def test_each_recorded_release_is_described() -> None:
    for name in recorded_releases():
        assert release_recording(name).version == release(name).version


def test_a_release_without_a_recording_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--profile", "kafka-9.9"]) == 2
    assert "there is no recording of Kafka 9.9, only of" in capsys.readouterr().err


def test_a_move_that_never_ends_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    (scenario,) = load(only=["log_dirs_moves"])
    monkeypatch.setattr(log_dir_steps, "_is_moving", lambda run, names: True)
    monkeypatch.setattr(readiness, "WITHIN", 0.0)
    with OwnBroker(scenario.settings) as broker, pytest.raises(TimeoutError, match="replicas still move"):
        play(Run(scenario, broker, "named"))
