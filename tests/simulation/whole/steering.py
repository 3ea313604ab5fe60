"""Steering: plans schedules that meet new pairs of kinds.

A plan is a list of kinds of steps. A schedule contains steps of these kinds in this order. The next kind in a plan is mostly
the kind that makes the most new pairs with the earlier kinds. Each time that a pair was planned but not met, it counts less.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import cycle
from random import Random
from typing import Any

from simulation.whole.pairs import EARLIER, EVERY_KIND, NEEDS, WITHIN, Pair, all_pairs
from simulation.whole.schedule import Plan
from simulation.whole.timers import PREFIX, TIMERS

LENGTH = 60
"""The number of steps of a plan."""
FOCUS = 4
"""The weight of the timer that is a plan's focus."""
BEFORE = {
    "restore": ("snapshot",), "cluster: thaw_replica": ("cluster: freeze_replica",),
    "a member's session ends": ("JoinGroup", "JoinGroup"), "cluster: start_broker": ("cluster: kill_broker",),
    "acl: remove_acl": ("acl: add_acl",), "quota: remove": ("quota: set",), "SyncGroup": ("JoinGroup",),
    "a client leaves": ("Metadata",), "state: truncate": ("Produce",), "topic: create_topic": ("topic: delete_topic",),
    "the transaction version changes": ("faults end", "start again cleanly"),
}  # fmt: skip
"""A step of the kind in the key is mostly impossible unless steps of these kinds come before it."""
SETTINGS: list[dict[str, Any]] = [
    {"data": data, "brokers": brokers, "secured": secured} | more
    for more in ({}, EARLIER, {"sync": "interval"}, {**EARLIER, "sync": "interval"})
    for secured in (True, False) for brokers in (1, 3) for data in (False, True) if data or "sync" not in more
]  # fmt: skip
"""The settings of clusters. Each plan takes the next one."""
DEFAULTS = {"sync": "never", "release": "", "static": False}
ALWAYS = [PREFIX + name for name, timer in TIMERS.items() if not timer.first]
"""The timers that fire whenever hours pass."""
RARE = [PREFIX + name for name, timer in TIMERS.items() if timer.first]
"""The other timers."""
STEPS = [kind for kind in EVERY_KIND if not kind.startswith(PREFIX)]


class Growing:
    """A growing plan. `found` has its steps; `window` has the kinds of its latest steps and of the timers that fire in these
    steps.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.window = deque[list[str]](maxlen=WITHIN + 1)

    def add(self, done: list[str]) -> list[str]:
        """Add a step. The first of `done` is the step's own kind; the others are timers."""
        self.found.append(done[0])
        self.window.append(done)
        return done


class Steering:
    """Plans schedules. `met` has the pairs that have been met already."""

    def __init__(self, met: Iterable[Pair]) -> None:
        self._wanted: dict[str, Counter[str]] = {kind: Counter() for kind in EVERY_KIND}
        """For each first kind and second kind: the number of wanted pairs. There can be one pair about the same thing, and one
        about different things.
        """
        self._planned: Counter[tuple[str, str]] = Counter()
        self._known = set(met)
        for pair in all_pairs():
            before, kind, _ = pair
            self._wanted[before][kind] += pair not in self._known
        self._settings = cycle(SETTINGS)

    @property
    def left(self) -> int:
        """The number of possible pairs that have not been met."""
        return sum(map(Counter.total, self._wanted.values()))

    def note(self, pairs: Iterable[Pair]) -> None:
        """Remember that these pairs have been met."""
        for pair in pairs:
            before, kind, _ = pair
            if pair not in self._known and before in self._wanted:
                self._known.add(pair)
                self._wanted[before][kind] -= 1

    def plans(self, seed: int, count: int) -> list[Plan]:
        """Returns plans for `count` seeds, beginning with this seed."""
        return [self.plan(each) for each in range(seed, seed + count)]

    def plan(self, seed: int) -> Plan:
        """Returns the next plan. Every second plan is about a rare timer."""
        chance = Random(f"plan {seed}")
        if seed % 2:
            return self._about_a_timer(chance)
        setting = next(self._settings)
        able = _able(setting)
        growing = Growing()
        self._grow(growing, able, self._focus(able, chance), chance, LENGTH)
        return Plan({**setting, "alike": chance.random() < 0.6}, growing.found)

    def _about_a_timer(self, chance: Random) -> Plan:
        """Returns a plan in which steps set a timer, with wanted kinds before and after the step in which the timer fires. A
        step after the timer is set, such as a restart, may remove the timer. So in about half of the plans, the wanted kinds
        come before the steps that set the timer. The seeds of the steps after the timer are different in each plan."""
        focus = self._focus({*RARE}, chance)
        timer = TIMERS[focus.removeprefix(PREFIX)]
        setting = {"data": chance.random() < 0.4, "brokers": 1, "secured": True} | dict(NEEDS.get(focus, {}))
        if chance.random() < 0.15:
            setting |= EARLIER
        able, growing = _able(setting), Growing()
        room = max(WITHIN - len(timer.first), 0) if chance.random() < 0.5 else 0
        wanted = {kind: self._wanted[kind][focus] / (1 + self._planned[kind, focus]) for kind in STEPS if kind in able}
        chosen = sorted(wanted, key=lambda kind: -wanted[kind] * (0.7 + 0.6 * chance.random()))[: room or WITHIN - 1]
        before = [*(step for kind in chosen for step in BEFORE.get(kind, ())), *chosen]
        steps = [*before, *timer.first] if room else [*timer.first, *before]
        for step in steps:
            growing.add([step])
        self._note(growing, growing.add([timer.clock, focus]))
        end = len(growing.found)
        self._grow(growing, able, "", chance, end + 2 * WITHIN)
        lead = len(before) if room else 0
        return Plan(setting, growing.found[lead:end], timer.seed, growing.found[:lead], growing.found[end:])

    def _grow(self, growing: Growing, able: set[str], focus: str, chance: Random, length: int) -> None:
        """Add the kinds with the most new pairs until the plan has `length` steps."""
        while len(growing.found) < length:
            best = self._best(growing.window, able, focus, chance)
            steps = _steps(best)
            for number, step in enumerate(steps, 1):
                done = [step]
                if number == len(steps) and best.startswith(PREFIX):
                    done.append(best)
                if step in ("clock: hours", "clock: days"):
                    done += [each for each in ALWAYS if each in able and each != best]
                self._note(growing, growing.add(done))

    def _note(self, growing: Growing, done: list[str]) -> None:
        """Note the planned pairs that the latest step makes with the steps before it."""
        for before in [*growing.window][:-1]:
            for earlier in before:
                self._planned.update((earlier, kind) for kind in done)

    def _focus(self, able: set[str], chance: Random) -> str:
        """Chooses a timer that the plan tries to meet often. A timer with many wanted pairs is more likely."""
        wanted = {timer: 1 + self._wanted[timer].total() + sum(each[timer] for each in self._wanted.values()) for timer in RARE}
        timers = [timer for timer in RARE if timer in able]
        return chance.choices(timers, [wanted[timer] ** 2 for timer in timers])[0]

    def _best(self, window: Iterable[list[str]], able: set[str], focus: str, chance: Random) -> str:
        scores: dict[str, float] = {}
        for before in [*window][-WITHIN:]:
            for earlier in before:
                for kind, wanted in self._wanted[earlier].items():
                    if wanted and kind in able:
                        scores[kind] = scores.get(kind, 0) + wanted / (1 + self._planned[earlier, kind])
        if not scores:  # the next step has the kind with the most wanted pairs that are possible here, or any kind
            scores = {
                before: 0.01 + sum(wanted for kind, wanted in self._wanted[before].items() if kind in able)
                for before in EVERY_KIND if before in able
            }  # fmt: skip
        if focus in scores:
            scores[focus] *= FOCUS
        return max(scores, key=lambda kind: scores[kind] / len(_steps(kind)) * (0.7 + 0.6 * chance.random()))


def _able(setting: Mapping[str, Any]) -> set[str]:
    """Returns the kinds that are possible with these settings."""
    return {kind for kind in EVERY_KIND if NEEDS.get(kind, {}).items() <= {**DEFAULTS, **setting}.items()}


def _steps(kind: str) -> list[str]:
    """Returns the steps that lead to a kind. The last is the step itself, or the step in which the timer fires."""
    if kind.startswith(PREFIX):
        timer = TIMERS[kind.removeprefix(PREFIX)]
        return [*timer.first, timer.clock]
    return [*BEFORE.get(kind, ()), kind]
