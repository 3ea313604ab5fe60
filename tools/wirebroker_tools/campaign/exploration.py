"""The exploration of one command: two plain runs, the cases, further cases, the failures, the summary."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from wirebroker.audit.journal import Intended
from wirebroker.trace.rows import ProduceRow, Row
from wirebroker_tools.campaign.application import ROWS, Application, CannotRun, Run
from wirebroker_tools.campaign.cases import Case, Identified, Result, Results, in_shard, play_all
from wirebroker_tools.campaign.dialogues import after_fault, after_request, pairs
from wirebroker_tools.campaign.errors import OF_CONSUMER_GROUPS, OF_STATIC_MEMBERS
from wirebroker_tools.campaign.findings import Finding, findings
from wirebroker_tools.campaign.misfortunes import Asked, Choice, Place, cases, delays, gives_up, is_slow, places
from wirebroker_tools.campaign.order import Queue, in_order
from wirebroker_tools.campaign.outcomes import KAFKAS_OWN, OUTCOMES, SILENT_OUTCOMES, Expectation, expectation, intend, sentence
from wirebroker_tools.campaign.words import faults_of
from wirebroker_tools.campaign.workers import Workers

LONGEST_S = 30.0
"""If a run may take longer than this many seconds (`Application.limit`), a run that hung is not played again."""
SLOWER_FACTOR, SLOWER_S = 5, 2.0
"""A run counts as slower if it took at least SLOWER_FACTOR times as long as the plain run, and at least SLOWER_S seconds
longer."""

TOGETHER = (
    "; all tests use the same broker, so they must not run at the same time: jest -i, vitest --no-file-parallelism, "
    "node --test --test-concurrency=1"
)


class Known(Identified):
    """The fields that every result of an exploration has."""

    api: str
    nth: int
    fault: dict[str, Any]
    outcomes: Annotated[list[str], msgspec.Meta(min_length=1)]
    exit: int | None
    seconds: float
    fired: int
    sentence: str


@dataclass(slots=True)
class Exploration:
    """The cases with which an application is tested. `begin` sets `plain` and the table of cases."""

    application: Application
    choice: Choice = field(default_factory=Choice)
    topics: Sequence[str] = ()
    intended: Sequence[Intended] | None = None
    depth: int = 1
    """the largest number of faults in a case: 1, or 2 to try pairs of faults, too"""
    shard: tuple[int, int] | None = None
    budget: float | None = None
    """seconds"""
    expected: Expectation = field(default_factory=Expectation)
    plain: Run = field(default_factory=lambda: Run(0, 0.0))
    places: dict[Place, list[Asked]] = field(default_factory=dict)
    by_client: bool = True
    """whether clients have the same ids in each run"""
    table: list[Case] = field(default_factory=list)
    keeps: bool = False
    """whether the results keep the trace and the output of each run that broke the application"""
    began: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Run the command twice without faults, and make the table of cases. Raises CannotRun.

        With a real cluster, one more run comes before these two runs. It brings the cluster into the state that later runs
        find.
        """
        if self.application.upstream is not None:
            self._plain()
        self.compare(self._plain(), self._plain())

    def compare(self, plain: Run, other: Run) -> None:
        """Derive the expected records from two plain runs, and make the table of cases."""
        seconds = min(plain.seconds, other.seconds)  # the first run of `cargo test` or `go test` compiles, too
        self.plain = replace(plain, seconds=seconds)
        self.expected = expectation(plain, other, self.topics)
        if self.intended is not None:
            intend(self.expected, self.intended)
        found = places(self.plain.rows)
        self.by_client = {each.client_id for each in found} == {each.client_id for each in places(other.rows)}
        if not self.by_client:
            self.expected.notices.append("the clients' ids differ from run to run, so clients are not distinguished")
            found = places(self.plain.rows, by_client=False)
        self.places = found
        dynamic = frozenset() if plain.has_static_members else OF_STATIC_MEMBERS
        classic = frozenset() if "ConsumerGroupHeartbeat" in plain.requests else OF_CONSUMER_GROUPS
        self.choice = replace(self.choice, impossible=dynamic | classic)
        self.table = in_order(case for case in cases(found, self.choice) if in_shard(case, self.shard))

    def _plain(self) -> Run:
        run = self.application.run()
        said = f"; it said: …{run.output.strip()[-300:]}" if run.output.strip() else ""
        if run.exit is None:
            raise CannotRun(f"without faults the command did not end within {self.application.limit:g} s (--limit){said}")
        if run.exit != 0:
            together = TOGETHER if run.tests > 1 else ""
            raise CannotRun(f"without faults the command ended with exit code {run.exit}{together}{said}")
        if run.check not in (None, 0):
            raise CannotRun(f"without faults --check ended with exit code {run.check}")
        if not run.requests:
            raise CannotRun(
                "the command sent no request to Kafka at the address in WIREBROKER_BOOTSTRAP, BOOTSTRAP_SERVERS and "
                "KAFKA_BOOTSTRAP_SERVERS; let it connect there (--env names another variable). Tests that start a broker must "
                "instead use the broker that WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name, like tests that share a broker "
                "of the libraries in clients/"
            )
        return run

    def play(self, results: Results, players: Workers, more: Callable[[int], None] = lambda _: None) -> Iterator[Result]:
        """Play the cases, and then further cases that the first results suggest. `more` is called with the number of further
        cases."""
        by_id = {case["id"]: case for case in self.table}
        queue, found = Queue(self.table, players.width() // 2), list[Result]()
        while queue and self.has_time():
            for result in self._round(queue, results, players):
                queue.ended(result["id"])
                found.append(result)
                yield result
                case = by_id.get(result["id"])
                if case is None or not is_slow(case) or result["outcomes"] == ["hung"]:
                    continue
                waited = result["seconds"] - self.plain.seconds
                later = list(gives_up(case, waited, self.application.limit))
                queue.add_next(later)
                if self.choice.has({"kind": "delay"}, result["api"], 0):
                    late = list(delays(case, waited, self.application.limit))
                    queue.add(late)
                    later += late
                self.table += later
                more(len(later))
        if self.depth > 1:
            again = pairs(self.places, self._in_order(found), self.choice, self._plain_dialogue)
            again = [case for case in again if in_shard(case, self.shard)]
            self.table += again
            more(len(again))
            yield from self._round(again, results, players)

    def _plain_dialogue(self, place: Place, nth: int) -> str:
        """Returns the digest of the dialogue after a request in the plain run."""
        return after_request(self.plain.rows, place, nth, by_client=self.by_client)

    def _round(self, table: Iterable[Case], results: Results, players: Workers) -> Iterator[Result]:
        player = self._elsewhere() if players.elsewhere else self
        try:
            yield from play_all(table, player.case, results, players, go_on=self.has_time)
        except BaseException:
            self.application.abandon()
            raise

    def _elsewhere(self) -> Exploration:
        """Returns a copy of this exploration for another process, which plays cases there. The two processes share only
        files."""
        application = replace(self.application, cwd=self.application.cwd or os.getcwd(), thread=None, processes=set())
        return replace(self, application=application, plain=replace(self.plain, rows=[], stored={}), places={}, table=[])

    def _in_order(self, results: Sequence[Result]) -> list[Result]:
        """Returns the results in the order of the table."""
        order = {case["id"]: place for place, case in enumerate(self.table)}
        return sorted(results, key=lambda result: order.get(result["id"], len(order)))

    def has_time(self) -> bool:
        """Tells whether the budget has time left."""
        return self.budget is None or time.monotonic() - self.began < self.budget

    def case(self, case: Case) -> Result:
        run = self.run(faults_of(case))
        result = self.result(case, run)
        if set(result["outcomes"]) & {"lost", "reordered"} and self._is_kafkas_own(case, run):
            result["outcomes"] = [KAFKAS_OWN]
        if self.keeps and is_broken(result) and "#" not in case["id"]:
            name = trace_file(case["id"])
            rows = "".join(f"{row.as_json()}\n" for row in run.rows)
            result["files"] = {str(name): rows, str(name.with_suffix(".txt")): run.output}
        return result

    def confirm(self, results: Sequence[Result], store: Results, players: Workers) -> None:
        """For each finding, play one of its cases two more times, and note in how many of the three runs the application
        broke."""
        first = list({(first := each.results[0])["id"]: first for each in self.findings(results)}.values())
        if self.application.limit > LONGEST_S:
            first = [each for each in first if each["exit"] is not None]
        words = ("id", "api", "nth", "fault", "second")
        again = [
            {**{word: each[word] for word in words if word in each}, "id": f"{each['id']}#{number}"}
            for each in first
            for number in (2, 3)
        ]
        played = {result["id"]: result["outcomes"] for result in self._round(again, store, players)}
        for each in first:
            outcomes = [played.get(f"{each['id']}#{number}") for number in (2, 3)]
            known = [each["outcomes"], *(found for found in outcomes if found is not None)]
            broke = sum(bool({*found} & {*each["outcomes"]}) for found in known)
            each["again"] = "always" if broke == len(known) else f"{broke} of {len(known)}"
            if len(known) == 1:
                each["again"] = "played once"

    def _is_kafkas_own(self, case: Case, run: Run) -> bool:
        """Tells whether KAFKA-15591 is the cause: Kafka 4.3.1 refuses a producer's first batch on a partition, and then stores
        the second batch.
        """
        if not any(fault["kind"] == "error" for fault in faults_of(case)) or not _begins_late(run.rows):
            return False
        if self.application.upstream is not None:
            return True
        strict = {"rules": {"first_sequence": "zero_or_45"}}
        run = self.application.run(faults_of(case), self.plain.requests.total(), changed=strict)
        return not set(self.expected.judge(run).outcomes) & set(SILENT_OUTCOMES)

    def run(self, faults: Sequence[Mapping[str, Any]]) -> Run:
        """Run the command with these faults."""
        return self.application.run(faults, self.plain.requests.total())

    def result(self, case: Case, run: Run) -> Result:
        """Returns the result of a run as data."""
        judged = self.expected.judge(run)
        made: Result = {
            **case, "outcomes": judged.outcomes, "exit": run.exit, "seconds": round(run.seconds, 3), "fired": run.fired,
            "requests": run.requests.total(), "missing": judged.missing, "doubled": judged.doubled,
            "verdicts": dict(Counter(row.verdict for row in run.rows if isinstance(row, ProduceRow))),
            "reordered": judged.reordered, "sentence": sentence(judged, run), "file": None,
        }  # fmt: skip
        if run.exit is not None and run.seconds > max(self.plain.seconds * SLOWER_FACTOR, self.plain.seconds + SLOWER_S):
            made["slower"] = round(run.seconds / max(self.plain.seconds, 0.001), 1)
        if len(run.rows) < ROWS and (later := after_fault(run.rows, by_client=self.by_client)) is not None:
            made["dialogue"] = later.digest
            if self.depth > 1 and judged.outcomes == ["as_before"]:
                made["later"] = msgspec.to_builtins(later.next)
        return made

    def findings(self, results: Sequence[Result]) -> list[Finding]:
        """Returns the findings: the runs in which the application broke, grouped by cause."""
        return findings(results, self.places)

    def summary(self, results: Sequence[Result]) -> dict[str, Any]:
        """Returns the contents of explore.json."""
        counts = Counter(name for result in results for name in result["outcomes"])
        return {
            "plain": {
                "exit": self.plain.exit, "seconds": round(self.plain.seconds, 3), "requests": dict(self.plain.requests),
                "stored": {topic: len(records) for topic, records in self.plain.stored.items() if records},
                "notices": self.expected.notices,
            },
            "findings": [each.as_json() for each in self.findings(results)],
            "runs": [
                {word: value for word, value in each.items() if word != "later"} for each in self._in_order(results)
            ],
            "summary": {
                "runs": len(results), **{name: counts[name] for name in OUTCOMES},
                "not_fired": sum(not result["fired"] for result in results), "not_tried": len(self.table) - len(results),
            },
        }  # fmt: skip


def _begins_late(rows: Iterable[Row]) -> bool:
    """Tells whether a producer epoch's first accepted batch on some partition has a first sequence other than 0."""
    seen: set[tuple[str, int, int, int]] = set()
    for row in rows:
        if isinstance(row, ProduceRow) and row.producer_id >= 0 and row.verdict == "accepted":
            key = row.topic, row.partition, row.producer_id, row.producer_epoch
            if row.first_sequence != 0 and key not in seen:
                return True
            seen.add(key)
    return False


def is_broken(result: Result) -> bool:
    """Tells whether the application broke silently, or did not end."""
    return any(name in SILENT_OUTCOMES for name in result["outcomes"])


def trace_file(case_id: str) -> Path:
    """Returns the path of a trace file, relative to the folder of the report. The trace is of a run that broke the
    application."""
    return Path("traces", f"{re.sub(r'[^A-Za-z0-9_.-]', '_', case_id)}.jsonl")
