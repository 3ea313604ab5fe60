"""The recordings of other releases. A recording has only those steps whose response differs from the response of the base
release.

Each scenario was played twice with the API versions that it names, and twice with lower versions that the release announces. A
step is left out if its two plays gave different responses. Observations are stored in the form in which they are compared: ids
are numbered by first appearance, and times are left out.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from kafkawire import messages
from wirebroker_tools.conformance.recording import LEFT_OUT, Json, Scenario, load, normalised
from wirebroker_tools.conformance.versions import VersionMode

BASE, PREFIX = messages.BASE.rpartition(".")[0], "kafka-"
"""The release whose recording contains every step, and the prefix in the names of profiles."""
MODES: tuple[VersionMode, ...] = ("named", "clamped")
UNREADABLE = {"conn": "unreadable"}
"""The observation of a step that gets the response to another request. This happens because some releases may respond twice to
a Produce with null records."""
Steps = dict[str, Json]
"""Observations by the number of their step, as text."""


@dataclass(slots=True)
class ReleaseRecording:
    """The recording of one release. `skipped` has the reason for each scenario that the release cannot play."""

    version: str
    broker: str
    skipped: dict[str, str] = field(default_factory=dict)
    named: dict[str, Steps] = field(default_factory=dict)
    clamped: dict[str, Steps] = field(default_factory=dict)
    left_out: dict[str, dict[str, list[int]]] = field(default_factory=lambda: {mode: {} for mode in MODES})

    def differing(self, versions: VersionMode) -> dict[str, Steps]:
        """Returns the steps that differ from the recording of the base release, by scenario."""
        return self.named if versions == "named" else self.clamped

    def add(self, scenario: Scenario, versions: VersionMode, rounds: Sequence[list[Json]], *, again: bool = False) -> None:
        """Add a scenario's observations: one list for each time that the scenario was played.

        With `again`, a step is also left out if it differs from the present recording of the scenario.
        """
        base = normalised(row["observed"] for row in scenario.steps)
        first, *others = [normalised(observed) for observed in rounds]
        if again and scenario.name not in self.skipped:
            before = self.differing(versions).get(scenario.name, {})
            others.append(_expected(scenario, before, self.left_out[versions].get(scenario.name, [])))
        left_out = [
            index for index, seen in enumerate(first) if seen == UNREADABLE or any(other[index] != seen for other in others)
        ]
        changed = {str(i): seen for i, seen in enumerate(first) if i not in left_out and seen != base[i]}
        self.differing(versions)[scenario.name] = changed
        self.left_out[versions][scenario.name] = left_out
        self.skipped.pop(scenario.name, None)

    def scenarios(self, versions: VersionMode, only: Iterable[str] | None = None) -> list[Scenario]:
        """Returns the scenarios with the responses of this release. Raises ValueError for unknown names."""
        differing, left_out = self.differing(versions), self.left_out[versions]
        return [
            replace(each, expected=_expected(each, differing.get(each.name, {}), left_out.get(each.name, [])))
            for each in load(only=only)
            if each.name not in self.skipped
        ]

    def write(self, path: Path) -> None:
        """Write the file, compressed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        told = asdict(self)
        for held in (told["named"], told["clamped"], *told["left_out"].values()):
            for name in [name for name, steps in held.items() if not steps]:
                del held[name]
        text = json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def _expected(scenario: Scenario, changed: Steps, left_out: Sequence[int]) -> list[Any]:
    seen = normalised(row["observed"] for row in scenario.steps)
    for number, observed in changed.items():
        seen[int(number)] = observed
    for index in left_out:
        seen[index] = LEFT_OUT
    return seen


def recorded_releases() -> list[str]:
    """Returns the releases with a recording, such as "3.9"."""
    held = _folder().iterdir() if _folder().is_dir() else []
    names = [each.name.removesuffix(".json.xz") for each in held if each.name.endswith(".json.xz")]
    return sorted((name.removeprefix(PREFIX) for name in names), key=lambda name: [int(part) for part in name.split(".")])


def release_recording(release: str) -> ReleaseRecording:
    """Returns the recording of a release. Raises ValueError if the release has no recording."""
    if release not in recorded_releases():
        raise ValueError(f"there is no recording of Kafka {release}, only of {', '.join(recorded_releases())}")
    return read(_folder().joinpath(f"kafka-{release}.json.xz").read_bytes())


def read(compressed: bytes) -> ReleaseRecording:
    return ReleaseRecording(**json.loads(lzma.decompress(compressed)))


def _folder() -> Any:
    return files(__package__).joinpath("recordings", "releases")
