"""Plays many schedules. Gives cases to workers, finds the smallest failing schedule, and keeps the ledger: the played seeds
and the pairs of steps that happened."""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fuzzing.script import Finding, minimise
from simulation.whole.pairs import Met, Pair, all_pairs, sort_of
from simulation.whole.schedule import Plan, Schedule, Setting, Step, schedule_of
from simulation.whole.world import run

CHUNK = 20
"""The number of schedules in a case."""
SHRINKING_S = 120.0
"""The time limit for making a failing schedule smaller, in seconds."""
TOLD = Met()
"""The pairs that this process has already reported."""


def play_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the schedules of one case. Returns the number of steps and the pairs that this process has met for the first time.
    If a schedule failed, also returns the failure of the smallest schedule."""
    steps, met = 0, Met()
    plans = [Plan(*each) for each in case["plans"]] if "plans" in case else [None] * case["schedules"]
    for number, plan in enumerate(plans):
        schedule = schedule_of(case["first"] + number, plan)
        try:
            world = run(schedule.setting, schedule.steps, met)
        except Finding as found:
            wrong = smallest(schedule, found, plan)
            return {**case, "schedules": number, "steps": steps, "pairs": sorted(met.pairs), "wrong": wrong}
        steps += len(world.history)
    new = sorted(met.pairs - TOLD.pairs)
    TOLD.pairs.update(new)
    return {**case, "steps": steps, "pairs": new, "wrong": None}


def smallest(schedule: Schedule, found: Finding, plan: Plan | None = None) -> str:
    """Returns a text with a finding and the smallest schedule that has it."""
    seed = schedule.setting.seed
    deadline = time.monotonic() + SHRINKING_S
    steps = minimise(
        schedule.steps, lambda steps: failure(schedule.setting, steps, found.kind) is not None,
        lambda: time.monotonic() < deadline,
    )  # fmt: skip
    last = failure(schedule.setting, steps, found.kind) or found
    lines = [
        f"seed {seed}: {found.kind}", f"reduced from {len(schedule.steps)} to {len(steps)} steps, {schedule.setting}",
        *map(str, steps), "", *getattr(last, "log", ()), "", last.detail,
        f"again: scripts/simulate --world --first {seed} --schedules 1" + (f" --plan '{json.dumps(plan)}'" if plan else ""),
    ]  # fmt: skip
    return "\n".join(lines)


def failure(setting: Setting, steps: Sequence[Step], kind: str) -> Finding | None:
    """Plays steps, and returns their finding if it is of this kind."""
    try:
        run(setting, steps)
    except Finding as found:
        return found if found.kind == kind else None
    return None


class Ledger:
    """A JSON file with the seeds that have been played, and with the pairs that the schedules of these seeds have met. Raises
    OSError, ValueError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.seeds: list[list[int]] = held.get("seeds", [])
        """The ranges of seeds whose schedules have no plan. Each range has its first seed, and the seed after its last seed."""
        self.planned: list[list[int]] = held.get("planned", [])
        """The ranges of seeds whose schedules have a plan."""
        self.requests: int = held.get("requests", 0)
        self.pairs: set[Pair] = set(_unpacked(held.get("kinds", []), held.get("pairs", "")))

    @property
    def schedules(self) -> int:
        """The number of schedules."""
        return sum(end - first for first, end in (*self.seeds, *self.planned))

    def next_seed(self, *, planned: bool = False) -> int:
        """Returns the first seed that was not played."""
        return next((end for first, end in (self.planned if planned else self.seeds) if first == 0), 0)

    def add(self, result: Mapping[str, Any]) -> None:
        """Note the result of a case."""
        played = self.planned if "plans" in result else self.seeds
        played[:] = _merged([*played, [result["first"], result["first"] + result["schedules"]]])
        self.requests += result["steps"]
        self.pairs |= {(before, kind, same) for before, kind, same in result["pairs"]}

    def merge(self, other: Ledger) -> None:
        """Add the seeds and the pairs of another ledger."""
        self.seeds, self.planned = _merged(self.seeds + other.seeds), _merged(self.planned + other.planned)
        self.requests += other.requests
        self.pairs |= other.pairs

    def write(self) -> None:
        """Write the file."""
        kinds = sorted({kind for before, kind, _ in self.pairs for kind in (before, kind)})
        held = {
            "schedules": self.schedules, "requests": self.requests, "seeds": self.seeds, "planned": self.planned,
            "coverage": self.coverage(), "kinds": kinds, "pairs": _packed(kinds, self.pairs),
        }  # fmt: skip
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        new.replace(self._path)

    def coverage(self) -> dict[str, str]:
        """Returns how many of the possible pairs have been met. The pairs are counted for each combination of two sorts of
        kinds. They are also counted by whether both kinds are about the same thing."""
        able, met = Counter[str](), Counter[str]()
        for before, kind, same in all_pairs():
            for told in (f"{sort_of(before)}, {sort_of(kind)}", "the same thing" if same else "different things"):
                able[told] += 1
                met[told] += (before, kind, same) in self.pairs
        return {told: f"{met[told]} of {able[told]}" for told in sorted(able)}

    def unmet(self) -> Iterator[Pair]:
        """Yields the possible pairs that have not been met."""
        yield from (pair for pair in all_pairs() if pair not in self.pairs)


def _merged(ranges: list[list[int]]) -> list[list[int]]:
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        elif low < high:
            merged.append([low, high])
    return merged


def _packed(kinds: list[str], pairs: set[Pair]) -> str:
    numbers = {kind: number for number, kind in enumerate(kinds)}
    bits = bytearray((2 * len(kinds) ** 2 + 7) // 8)
    for before, kind, same in pairs:
        at = 2 * (numbers[before] * len(kinds) + numbers[kind]) + same
        bits[at // 8] |= 1 << at % 8
    return b64encode(zlib.compress(bytes(bits), 9)).decode()


def _unpacked(kinds: list[str], packed: str) -> Iterator[Pair]:
    bits = zlib.decompress(b64decode(packed)) if packed else b""
    for at in range(2 * len(kinds) ** 2 if bits else 0):
        if bits[at // 8] >> at % 8 & 1:
            number, same = divmod(at, 2)
            yield kinds[number // len(kinds)], kinds[number % len(kinds)], bool(same)
