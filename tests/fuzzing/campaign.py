"""Runs many cases one after another. Reports each cause of failure once, with the command that repeats the failed case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hypothesis.errors import Flaky

from fuzzing import readers
from fuzzing.cases import Case, Outcome, replay, still_fails
from fuzzing.hostile import HostileCase
from fuzzing.relays import RelayCase
from fuzzing.script import Finding, Script, minimise
from fuzzing.served import ServedCase

MINIMISING = 20.0
"""The longest time, in seconds, for reducing the script of a finding."""


@dataclass(slots=True)
class Found:
    """A finding, how often it occurred, and the command that repeats it."""

    finding: Finding
    replay: str
    times: int = 1


@dataclass(slots=True)
class Report:
    """The result of a campaign. `cpu` is the CPU time, in seconds, of this process or of the servers that it started."""

    cases: int = 0
    requests: int = 0
    responses: int = 0
    cpu: float = 0.0
    slowest: float = 0.0
    slowest_request: str = ""
    next_seed: int = 0
    found: dict[str, Found] = field(default_factory=dict)

    def note(self, finding: Finding, replay: str) -> Found | None:
        """Counts a finding. Returns the finding if no earlier finding has the same cause."""
        known = self.found.get(finding.kind)
        if known is not None:
            known.times += 1
            return None
        found = self.found[finding.kind] = Found(finding, replay)
        return found

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.cases += 1
        self.requests += outcome.requests
        self.responses += outcome.responses
        if outcome.slowest > self.slowest:
            self.slowest, self.slowest_request = outcome.slowest, outcome.slowest_request

    def __str__(self) -> str:
        slowest = f", the slowest took {self.slowest * 1000:.0f} ms ({self.slowest_request})"
        return (
            f"{self.cases:,} cases, {self.requests:,} requests, {self.responses:,} answers, {self.cpu:.0f} s of CPU"
            f"{slowest if self.slowest_request else ''}; {len(self.found)} findings; the next seed is {self.next_seed}"
        )


Told = Callable[[Report], None]


def seeds(first: int, minutes: float) -> Iterator[int]:
    """Yields successive seeds until `minutes` have passed. Yields at least one seed."""
    end = time.monotonic() + minutes * 60
    for seed in count(first):
        yield seed
        if time.monotonic() >= end:
            return


Show = Callable[[Found], None]


def play(chosen: Iterator[int], folder: Path, tell: Told, show: Show, apis: tuple[str, ...] = ()) -> Report:
    """Plays each seed's case to an engine in this process. Reduces the script of each finding, and saves it in `folder`."""
    report, begun = Report(), time.process_time()
    for seed in chosen:
        outcome = Case(seed, apis).run()
        report.add(outcome)
        if outcome.finding is not None and not _only_slow_once(outcome):
            found = report.note(outcome.finding, "")
            if found is not None:
                found.finding, found.replay = _smaller(seed, outcome.script, outcome.finding, folder)
                show(found)
        report.cpu, report.next_seed = time.process_time() - begun, seed + 1
        tell(report)
    return report


def _only_slow_once(outcome: Outcome) -> bool:
    """Returns whether a slow case is fast when it is repeated. If so, the machine was busy, and the finding does not count."""
    finding = outcome.finding
    slow = finding is not None and finding.kind.startswith("slow")
    return finding is not None and slow and not still_fails(outcome.script.setting, finding.kind)(outcome.script.steps)


def play_served(chosen: Iterator[int], tell: Told, show: Show, apis: tuple[str, ...] = ()) -> Report:
    """Plays each seed's case to a server over TCP. `cpu` in the report is the CPU time of the servers."""
    report = Report()
    for seed in chosen:
        outcome = ServedCase(seed, apis).run()
        report.cases, report.requests, report.responses = (
            report.cases + 1, report.requests + outcome.requests, report.responses + outcome.responses
        )  # fmt: skip
        if outcome.worst > report.slowest:
            report.slowest, report.slowest_request = outcome.worst, f"a wait, seed {seed}"
        if outcome.finding is not None:
            found = report.note(outcome.finding, f"scripts/fuzz served --replay {seed}")
            if found is not None:
                show(found)
        report.cpu, report.next_seed = report.cpu + outcome.cpu, seed + 1
        tell(report)
    return report


CASES: dict[str, type[RelayCase | HostileCase]] = {"relay": RelayCase, "hostile": HostileCase}
"""Two kinds of cases by their names in `scripts/fuzz`: traffic through a proxy, and data directories made by an attacker."""


def play_here(what: str, chosen: Iterator[int], tell: Told, show: Show) -> Report:
    """Plays each seed's case of this kind in this process."""
    report, begun = Report(), time.process_time()
    for seed in chosen:
        outcome = CASES[what](seed).run()
        report.add(outcome)
        if outcome.finding is not None:
            found = report.note(outcome.finding, f"scripts/fuzz {what} --replay {seed}")
            if found is not None:
                show(found)
        report.cpu, report.next_seed = time.process_time() - begun, seed + 1
        tell(report)
    return report


def read(chosen: Iterator[int], tell: Told, show: Show, examples: int = 200) -> Report:
    """Makes `examples` examples for each seed and reader, and lets the reader read them."""
    report, begun = Report(), time.process_time()
    for seed in chosen:
        for name in readers.READERS:
            found = _reader_finding(name, seed, examples)
            fresh = None if found is None else report.note(found, f"scripts/fuzz readers --replay {seed}")
            if fresh is not None:
                show(fresh)
            report.cases += examples
            report.cpu, report.next_seed = time.process_time() - begun, seed + 1
            tell(report)
    return report


def _reader_finding(name: str, seed: int, examples: int) -> Finding | None:
    try:
        readers.run(name, seed, examples)
    except Flaky as flaky:  # perhaps the example was slow only once
        return Finding(f"{name}: this example does not fail each time (flaky)", str(flaky)[:500])
    except AssertionError as unfit:
        notes = "\n".join(getattr(unfit, "__notes__", ()))
        return Finding(str(unfit)[:150], notes[:2000])
    return None


def _smaller(seed: int, script: Script, finding: Finding, folder: Path) -> tuple[Finding, str]:
    """Reduces the script of a finding, and saves it. Returns the finding, and the command that repeats it."""
    end = time.monotonic() + MINIMISING
    fails = still_fails(script.setting, finding.kind)
    steps = minimise(script.steps, fails, lambda: time.monotonic() < end) if fails(script.steps) else script.steps
    path = folder / f"requests-{seed}.json"
    smaller = Script(script.setting, tuple(steps))
    smaller.save(path)
    said = "\n".join(["the steps:", *(f"  {step}" for step in steps[-10:])])
    return Finding(finding.kind, f"{(replay(smaller) or finding).detail}\n{said}"), f"scripts/fuzz requests --replay {path}"
