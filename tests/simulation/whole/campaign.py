"""Many schedules: cases for workers, the smallest failing schedule, and the ledger of what has been played and met."""

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
from simulation.whole.acts import ACTS
from simulation.whole.pairs import Met, Pair
from simulation.whole.schedule import Setting, Step, schedule_of
from simulation.whole.world import run

CHUNK = 20
"""The number of schedules in a case."""
SHRINKING_S = 120.0
"""The most seconds in which a failing schedule is made smaller."""
TOLD = Met()
"""The pairs that this process has met, and has told already."""


def play_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the schedules of one case. Returns the number of steps, the pairs that this process has met for the first time, and
    the failure, if any, with the smallest schedule."""
    steps, met = 0, Met()
    for number, seed in enumerate(range(case["first"], case["first"] + case["schedules"])):
        schedule = schedule_of(seed)
        try:
            world = run(schedule.setting, schedule.steps, met)
        except Finding as found:
            wrong = smallest(seed, found)
            return {**case, "schedules": number, "steps": steps, "pairs": [], "wrong": wrong}
        steps += len(world.history)
    new = sorted(met.pairs - TOLD.pairs)
    TOLD.pairs.update(new)
    return {**case, "steps": steps, "pairs": new, "wrong": None}


def smallest(seed: int, found: Finding) -> str:
    """Returns a text with a finding and the smallest schedule that has it."""
    schedule = schedule_of(seed)
    deadline = time.monotonic() + SHRINKING_S
    steps = minimise(
        schedule.steps, lambda steps: failure(schedule.setting, steps, found.kind) is not None,
        lambda: time.monotonic() < deadline,
    )  # fmt: skip
    last = failure(schedule.setting, steps, found.kind) or found
    lines = [
        f"seed {seed}: {found.kind}", f"reduced from {len(schedule.steps)} to {len(steps)} steps, {schedule.setting}",
        *map(str, steps), "", *getattr(last, "log", ()), "", last.detail,
        f"again: scripts/simulate --world --first {seed} --schedules 1",
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
    """The seeds that have been played, and the pairs that they have met, in a file of JSON. Raises OSError, ValueError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.seeds: list[list[int]] = held.get("seeds", [])
        """The ranges of seeds, each with its first seed and the seed after its last one."""
        self.requests: int = held.get("requests", 0)
        self._kinds: list[str] = held.get("kinds", [])
        self.pairs: set[Pair] = set(_unpacked(self._kinds, held.get("pairs", "")))

    @property
    def schedules(self) -> int:
        """The number of schedules."""
        return sum(end - first for first, end in self.seeds)

    def next_seed(self) -> int:
        """Returns the first seed that was not played."""
        return next((end for first, end in sorted(self.seeds) if first == 0), 0)

    def add(self, result: Mapping[str, Any]) -> None:
        """Note the result of a case."""
        first, end = result["first"], result["first"] + result["schedules"]
        self.requests += result["steps"]
        self.pairs |= {(before, kind, same) for before, kind, same in result["pairs"]}
        merged: list[list[int]] = []
        for low, high in sorted([*self.seeds, [first, end]]):
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            elif low < high:
                merged.append([low, high])
        self.seeds = merged

    def write(self) -> None:
        """Write the file."""
        known = {kind for before, kind, _ in self.pairs for kind in (before, kind)}
        self._kinds = sorted(known)
        held = {
            "schedules": self.schedules, "requests": self.requests, "seeds": self.seeds, "coverage": self.coverage(),
            "kinds": self._kinds, "pairs": _packed(self._kinds, self.pairs),
        }  # fmt: skip
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        new.replace(self._path)

    def coverage(self) -> dict[str, str]:
        """Returns how many of the pairs of known kinds have been met, by what the kinds are."""
        kinds = Counter(map(sort_of, self._kinds))
        met = Counter((sort_of(before), sort_of(kind)) for before, kind in {pair[:2] for pair in self.pairs})
        return {
            f"{before}, {after}": f"{met[before, after]} of {kinds[before] * kinds[after]}"
            for before in sorted(kinds) for after in sorted(kinds)
        }  # fmt: skip

    def unmet(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs of known kinds that have not been met."""
        met = {pair[:2] for pair in self.pairs}
        yield from ((before, kind) for before in self._kinds for kind in self._kinds if (before, kind) not in met)


def sort_of(kind: str) -> str:
    """Returns whether a kind is a request, a timer or an act."""
    return "timer" if kind.startswith("timer: ") else "act" if kind in ACTS else "request"


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
