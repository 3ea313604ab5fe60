"""With the profiles of other releases, wirebroker has the same responses as the recorded brokers of these releases."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import wirebroker
from wirebroker.commands.cli import main
from wirebroker.commands.releases import changes, declared
from wirebroker.core import releases
from wirebroker.core.profile import profile
from wirebroker.core.releases import release
from wirebroker.core.releases.changes import RELEASES, number, since
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import Difference, deliberate
from wirebroker_tools.conformance.releases import recorded_releases, release_recording
from wirebroker_tools.conformance.replay import replay

PLAYED = ("main", "controller", "restart", "log_dirs", "log_dirs_new")
"""Groups of scenarios: about producers, transactions, the protocol, the controller, restarts, and log directories."""

DECLARATION = re.compile(r"^ *(\w+) = (?:\(\s*)?(?:since|until|ByRelease(?:\[.*\])?)\(", re.MULTILINE)

FORGED = {(name, "controller_requests", 34) for name in ("0.11", "1.0", "1.1", "2.1")}
"""Steps after a client has pretended to be the controller, and has sent an UpdateMetadata. Before Kafka 2.2, requests have no
broker epochs, so Kafka accepts the request and forgets its brokers. wirebroker responds like Kafka, but keeps its state."""


def differences(name: str, groups: tuple[str, ...]) -> list[Difference]:
    recording = release_recording(name)
    scenarios = [each for each in recording.scenarios("clamped") if each.ran_on in groups and each.name in recording.clamped]
    found: list[Difference] = []
    for scenario in scenarios:
        profile: Any = f"kafka-{name}"
        with OwnBroker(scenario.settings, profile=profile, secured=scenario.secured) as broker:
            found += [each for each in replay(scenario, broker, "clamped")[1] if not deliberate(each)]
    return [each for each in found if (name, each.scenario, each.index) not in FORGED]


@pytest.mark.parametrize("name", recorded_releases())
def test_a_release_responds_as_its_recording(name: str) -> None:
    assert not differences(name, PLAYED)


@pytest.mark.parametrize("name", ["0.11", "1.0"])
def test_clients_log_in_as_in_an_old_release(name: str) -> None:
    assert not differences(name, ("secured",))


def test_the_releases_are_those_with_a_file_oldest_first() -> None:
    assert {each.name for each in Path(releases.__file__).parent.glob("*.json")} == {f"kafka-{name}.json" for name in RELEASES}
    assert list(RELEASES) == sorted(RELEASES, key=number)
    for name in RELEASES:
        assert release(name).name == name == profile(f"kafka-{name}").release


def test_a_change_begins_with_a_known_release() -> None:
    with pytest.raises(ValueError, match=f"begins with Kafka 99.0, but RELEASES ends with {RELEASES[-1]}"):
        since("99.0", "a new error is sent")


def test_each_change_makes_a_difference_and_is_later_than_the_one_before() -> None:
    for each in declared():
        values = [each.oldest, *(change.value for change in each.changes)]
        assert all(one != other for one, other in pairwise(values)), each.changes
        assert all(number(one.release) < number(other.release) for one, other in pairwise(each.changes)), each.changes


def test_each_declared_change_is_read_and_in_releases_diff_newest_first() -> None:
    folder = Path(wirebroker.__path__[0])
    source = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py") if path.name != "changes.py")
    declarations = DECLARATION.findall(source)
    assert len(declared()) == len(declarations) > 100
    assert set(declarations) <= set(re.findall(r"(\w+)\.(?:of|at)\(", source))
    numbers = [number(change.release) for change in changes()]
    assert numbers == sorted(numbers, reverse=True)


def test_releases_diff_shows_changes_of_behaviour_versions_and_valid_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["releases", "diff", "4.0", "4.1"]) == 1
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "segment.bytes values 14.. → values 1048576.." in printed
    assert "Produce 3–12 → 3–13" in printed
    assert "with transaction version 2 a producer's first sequence must be 0 (since 4.1, KIP-890)" in printed
    assert main(["releases", "diff", "4.1", "4.1"]) == 0


def test_releases_diff_suggests_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["releases", "diff", "3.9", "3.9.2"]) == main(["releases", "diff", "3.1", "3.9"]) == 2
    assert [line.partition("releases: ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "there is no release '3.9.2'; did you mean 'kafka-3.9'?",
        "wirebroker has no profile of Kafka 3.1; the nearest is kafka-3.0",
    ]
