"""Plays schedules of the whole world with fixed seeds, and checks that the schedules find known defects."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wirebroker
from fuzzing.script import Finding
from simulation.whole import acts, kinds, watching
from simulation.whole.campaign import Ledger, play_case
from simulation.whole.pairs import NEEDS, Met, all_pairs
from simulation.whole.schedule import Plan, focus_of, schedule_of
from simulation.whole.steering import RARE, Steering
from simulation.whole.timers import NO_TIMERS, PREFIX, TIMERS
from simulation.whole.world import run
from wirebroker.apis import SERVED, TELEMETRY
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import NEVER
from wirebroker.deeds.declaring import Deeds, deeds_in
from wirebroker.faults.rules import KINDS

CHUNK, CHUNKS = 20, 16


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules_of_the_world(chunk: int) -> None:
    result = play_case({"first": chunk * CHUNK, "schedules": CHUNK})
    assert result["wrong"] is None, result["wrong"]


def test_every_request_every_deed_and_every_fault_is_a_kind_of_step() -> None:
    assert set(SERVED) | set(TELEMETRY) == set(kinds.ASKED)
    deeds = {each.function.__name__ for holder in Deeds.__subclasses__() for each in deeds_in(holder)}
    assert deeds <= {name.partition(": ")[2] for name in acts.ACTS}
    assert set(KINDS) == {name.partition(": ")[2] for name in acts.ACTS if name.startswith("fault: ")} | set(acts.NO_ACTS)


class Actions(ast.NodeVisitor):
    """Finds the names of the timers' actions, as `purgatory.name_of` returns them."""

    def __init__(self, tree: ast.Module) -> None:
        self.found = set[str]()
        self._within: list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.visit(tree)

    def _enter(self, node: Any) -> None:
        self._within.append(node)
        self.generic_visit(node)
        self._within.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        object_, _, method = ast.unparse(node.func).rpartition(".")
        if object_.endswith("timers") and method in ("at", "every"):
            self.found.add(self._name(node.args[1 if method == "at" else 2]))
        self.generic_visit(node)

    def _name(self, action: ast.expr) -> str:
        if isinstance(action, ast.Attribute):
            return f"{self._within[-2].name}.{action.attr}"
        function = self._within[-1]
        within = ".".join(each.name for each in self._within) + ".<locals>."
        if isinstance(action, ast.Lambda):
            return within + "<lambda>"
        assert isinstance(action, ast.Name)
        if any(isinstance(each, ast.FunctionDef) and each.name == action.id for each in ast.walk(function)):
            return within + action.id
        calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
        return self._name(next(each.args[0] for each in calls if ast.unparse(each.func) == "partial"))


def test_every_timer_is_met_or_has_a_reason() -> None:
    root = Path(wirebroker.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in root.rglob("*.py")]
    found = set().union(*(Actions(ast.parse(text)).found for text in texts if "timers" in text))
    assert found == TIMERS.keys() | NO_TIMERS.keys()
    assert not TIMERS.keys() & NO_TIMERS.keys()


@pytest.mark.parametrize("name", RARE)
def test_a_plan_leads_to_each_rare_timer(name: str) -> None:
    timer, met = TIMERS[name.removeprefix(PREFIX)], Met()
    setting = {"data": False, "brokers": 1, "secured": True} | dict(NEEDS.get(name, {}))
    schedule = schedule_of(0, Plan(setting, [*timer.first, timer.clock], timer.seed))
    run(schedule.setting, schedule.steps, met)
    assert name in {kind for _, kind, _ in met.pairs}


def test_plans_meet_what_is_wanted() -> None:
    steering, met = Steering(()), Met()
    left = steering.left
    for seed, plan in enumerate(steering.plans(0, 6)):
        schedule = schedule_of(seed, plan)
        run(schedule.setting, schedule.steps, met)
    steering.note(met.pairs)
    assert left - steering.left > 1000


def test_plans_are_not_about_pairs_that_are_impossible_with_their_settings() -> None:
    election, possible = "an unclean election", ("fault: fence", "quota: remove", True)
    static = {(election, timer, True) for timer in (LATE, "timer: Group._complete_join")}  # clusters have no such members
    steering = Steering({*all_pairs()} - static - {possible})
    plans = [plan for plan in steering.plans(0, 24) if plan.setting["brokers"] > 1 and plan.seed is None]
    assert len(plans) > 2
    assert all({*possible[:2]} <= {*plan.kinds} for plan in plans)


def test_plans_are_the_same_in_every_process() -> None:
    script = "from simulation.whole.steering import Steering; print(Steering(()).plans(0, 6))"
    printed = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert printed[0] == printed[1]


def test_the_lead_and_the_rest_of_a_plan_do_not_change_its_other_steps() -> None:
    kinds = ["JoinGroup", "clock: minutes"]
    steps = schedule_of(5, Plan({}, kinds, 7)).steps
    led = schedule_of(5, Plan({}, kinds, 7, ["soft reset", "snapshot"])).steps
    assert [each.kind for each in led[-4:]] == ["soft reset", "snapshot", *kinds]
    assert [*led[:-4], *led[-2:]] == steps
    rests = [schedule_of(seed, Plan({}, kinds, 7, rest=["Fetch", "Produce"])).steps for seed in (5, 6)]
    assert [rest[:-2] for rest in rests] == [steps, steps]
    assert [[each.kind for each in rest[-2:]] for rest in rests] == [["Fetch", "Produce"]] * 2
    assert rests[0][-2:] != rests[1][-2:]


UNJOINED, LATE = "timer: Group.add_pending.<locals>.expire", "timer: Group._complete_late_join"
DESCRIPTION = "StreamsGroupTopologyDescriptionUpdate"


@pytest.mark.parametrize(("seed", "plan", "pair"), [
    # a member id with which no member joins, and then a group whose members are all static
    (500_009, Plan(
        {"static": True, "secured": False, "sliced": False, "traced": False, "warm": True},
        ["JoinGroup", "clock: hours", "JoinGroup", "SyncGroup", "JoinGroup", "a member's session ends", "clock: seconds"],
    ), (UNJOINED, LATE, True)),
    # two groups of the same kind
    (1, Plan({"alike": False}, [DESCRIPTION] * 12), (DESCRIPTION, DESCRIPTION, False)),
])  # fmt: skip
def test_a_plan_meets_a_rare_pair(seed: int, plan: Plan, pair: tuple[str, str, bool]) -> None:
    schedule, met = schedule_of(seed, plan), Met()
    run(schedule.setting, schedule.steps, met)
    assert pair in met.pairs


@pytest.mark.parametrize("alike", [False, True])
def test_subjects_can_share_the_names_of_their_groups(alike: bool) -> None:
    met = Met()
    schedule = schedule_of(2, Plan({"alike": alike}, ["InitProducerId", "AddOffsetsToTxn", "ShareGroupDescribe"] * 6))
    run(schedule.setting, schedule.steps, met)
    assert (("AddOffsetsToTxn", "ShareGroupDescribe", True) in met.pairs) is alike


def test_ledgers_are_merged_and_kept(tmp_path: Path) -> None:
    one, other = Ledger(tmp_path / "one"), Ledger(tmp_path / "other")
    one.add({"first": 0, "schedules": 20, "steps": 5, "pairs": [("Fetch", "Produce", True)]})
    other.add({"first": 20, "schedules": 20, "steps": 6, "pairs": [("Produce", "Fetch", False)]})
    other.add({"first": 0, "schedules": 1, "steps": 7, "pairs": [], "plans": []})
    one.merge(other)
    one.write()
    again = Ledger(tmp_path / "one")
    assert (again.seeds, again.planned, again.requests) == ([[0, 40]], [[0, 1]], 18)
    assert again.pairs == {("Fetch", "Produce", True), ("Produce", "Fetch", False)}
    assert (again.next_seed(), again.next_seed(planned=True)) == (40, 1)


def test_the_ledger_has_only_pairs_that_can_be_met() -> None:
    ledger = Ledger(Path(__file__).parent / "simulation" / "world-ledger.json")
    assert sorted(ledger.pairs.difference(all_pairs())) == []


def test_a_schedule_of_the_world_is_the_same_each_time() -> None:
    logs = []
    for _ in range(2):
        schedule = schedule_of(11)
        logs.append(run(schedule.setting, schedule.steps).log)
    assert logs[0] == logs[1]


def test_the_seeds_have_all_foci() -> None:
    count = len(kinds.KINDS)
    assert len({focus_of(seed) for seed in range(count**2)}) == count**2
    assert Counter(first for first, _ in map(focus_of, range(3 * count))).most_common(1)[0][1] < count


# Each of these functions brings back a defect that the broker once had. The world must find it.


def retention_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks retention. Retention then removes segments one by one, but never a segment before the log start offset, so it
    never ends.
    """

    def start_at(self: Any, offset: int, now: int) -> None:
        if offset != self.log_start_offset:
            self._advance_start(offset, now)
            self.log.drop_segments_below(offset)

    def retain(self: Any, now: int) -> int:
        if "delete" not in self.configs.text("cleanup.policy"):
            return NEVER
        keep_ms, log = self.configs.integer("retention.ms"), self.log
        while (first := log.segments[0]).size or first is not log.active:
            if keep_ms < 0 or now - max(first.max_timestamp, first.created) <= keep_ms:
                break
            if self.high_watermark < (log.end_offset if first is log.active else log.segments[1].base_offset):
                break
            if first is log.active:
                log.roll(now)
            self._start_at(log.segments[1].base_offset, now)
        return NEVER

    monkeypatch.setattr(watching, "HANG_S", 1.0)
    monkeypatch.setattr(Partition, "_start_at", start_at)
    monkeypatch.setattr(Partition, "retain", retain)


DEFECTS: list[Callable[[pytest.MonkeyPatch], None]] = [retention_goes_round]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_the_world_finds_a_defect(defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        defect(changed)
        failing = next((seed for seed in range(1000) if first_finding(seed) is not None), None)
    assert failing is not None
    assert first_finding(failing) is None, "without the defect, the same schedule does not fail"


def first_finding(seed: int) -> Finding | None:
    schedule = schedule_of(seed)
    try:
        run(schedule.setting, schedule.steps)
    except Finding as found:
        return found
    return None
