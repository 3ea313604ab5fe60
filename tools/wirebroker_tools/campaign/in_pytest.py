"""Explores a test: runs it twice without faults, then once for each fault, each time with new fixtures.

A run breaks the test if an assertion of the test fails, or if the test passes and the stored records differ. Any other
exception counts as a failure that the application reported. An unexpected HTTP status, such as 503, also counts as a reported
failure. Each case is a subtest (pytest 9 or newer). The test itself fails if a case breaks it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from wirebroker.faults.files import read_rule
from wirebroker.faults.rules import api_named
from wirebroker_tools.campaign.application import Application, Run, Watch, left_in
from wirebroker_tools.campaign.cases import Case, Result
from wirebroker_tools.campaign.exploration import Exploration, is_broken
from wirebroker_tools.campaign.misfortunes import Choice, brokers_for, is_slow
from wirebroker_tools.campaign.show import plan
from wirebroker_tools.campaign.words import duration, fault_in_words, faults_of, place_of

if TYPE_CHECKING:
    from wirebroker.mock import MockKafka

WORDS = ("api", "faults", "every", "budget")
"""The keys that a dict in `explore=` may have."""


REPORTED = re.compile(
    r"where (?:429|5\d\d) = .*\.status|<[^<>]*\[(?:429|5\d\d)[ \]]|assert (?:429|5\d\d) (?:==|<=?|in|is) [\[({]?2\d\d\b"
)
"""A pattern for the messages of failed assertions. A message matches if it shows that a service responded with a server's
error: by an attribute `status…`, by a response such as `<Response [503]>`, or by a comparison with a status of success."""


class Explored:
    """The current run of a test."""

    def __init__(self) -> None:
        self.run = Run(0, 0.0)
        self.error: BaseException | None = None
        self.brokers = 1
        self._case: Case | None = None
        self._watch = Watch(None)

    def prepare(self, case: Case | None) -> None:
        """Prepare the next run, with the faults of this case. If the case is None, the run has no faults."""
        self._case, self.error, self.run = case, None, Run(0, 0.0)

    def begin(self, kafka: MockKafka) -> None:
        """Watch the broker of a run, and add the faults of the case. The broker has just started."""
        self._watch = Watch(None)
        kafka._call(lambda engine: engine.trace.sinks.append(self._watch))
        for words in faults_of(self._case) if self._case is not None else ():
            kafka.faults.add(read_rule(words))

    def end(self, kafka: MockKafka) -> None:
        """Remove the faults after the test has ended, and collect the results of the run."""
        self.brokers = len(kafka.brokers())
        fired = sum(rule.fired for rule in kafka.faults.rules)
        kafka.faults.clear()
        self.run = Run(0, 0.0, fired=fired, rows=list(self._watch.rows), requests=self._watch.requests)
        self.run.take([left_in(kafka, {})])


class _Sibling:
    """A placeholder for the next test: it makes pytest tear down the fixtures of the present test, but not the fixtures that
    tests share.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._item, name)

    def listchain(self) -> list[Any]:
        return self._item.listchain()[:-1]


def explore_item(
    item: pytest.Item, nextitem: pytest.Item | None, choice: Choice, explored: Explored, budget: float | None = None
) -> None:  # fmt: skip
    """Run the protocol of a test for each fault, until `budget` seconds have passed."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _, first = _once(item, _Sibling(item), explored, None)
    reports, second = _once(item, _Sibling(item), explored, None)
    if all(report.passed for report in reports) and first.exit == 0 and not first.check:
        exploration = Exploration(Application((), thread=None), choice, budget=budget)
        exploration.compare(first, second)
        table = [
            case for case in exploration.table
            if (choice.faults is not None or not is_slow(case)) and brokers_for(faults_of(case)) <= explored.brokers
        ]  # fmt: skip
        _say(item, f"explores {plan(exploration, table)}")
        results: list[Result] = []
        for number, case in enumerate(table, 1):
            if not exploration.has_time():
                _say(item, f"{len(table) - number + 1} faults were not tried: the budget was used up")
                break
            results.append(_play(item, explored, exploration, {**case, "order": number}))
        reports, _ = _once(item, nextitem, explored, None)
        _fail(reports, results, exploration)
    else:
        reports, _ = _once(item, nextitem, explored, None)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def choice_of(wanted: Any) -> Choice:
    """Returns the choice that the marker's `explore=` describes: true, or a dict with some of `WORDS`. Raises ValueError."""
    given = wanted if isinstance(wanted, Mapping) else {}
    for word in given:
        if word not in WORDS:
            raise ValueError(f"explore= takes {', '.join(WORDS)}, not {word!r}")
    apis, faults = ([each] if isinstance(each := given.get(word, ()), str) else list(each) for word in ("api", "faults"))
    return Choice.of([api_named(each) for each in apis], faults, every=bool(given.get("every")))


def budget_of(wanted: Any) -> float | None:
    """Returns the marker's budget, in seconds. Raises ValueError."""
    given = wanted.get("budget") if isinstance(wanted, Mapping) else None
    return None if given is None else duration(str(given))


def _say(item: pytest.Item, sentence: str) -> None:
    """Print a sentence about the test, unless this process is a worker of xdist, which has no terminal."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.ensure_newline()
        terminal.write_line(f"{item.nodeid} {sentence}")


def _once(
    item: pytest.Item, nextitem: Any, explored: Explored, case: Case | None
) -> tuple[list[pytest.TestReport], Run]:  # fmt: skip
    """Run the test with new fixtures. Returns pytest's reports and the result of the run."""
    explored.prepare(case)
    item._initrequest()  # type: ignore[attr-defined]
    began = time.monotonic()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    run = explored.run
    run.seconds = time.monotonic() - began
    if explored.error is not None:
        if _is_own_check(explored.error):
            run.check = 1
        else:
            run.exit = 1
        run.output = str(explored.error)
    return reports, run


def _is_own_check(error: BaseException) -> bool:
    """Tells whether the failure came from an assertion of the test, and not from the application. If a service has responded
    with a server's error, the application has reported the failure.
    """
    if REPORTED.search(str(error)):
        return False
    waited = isinstance(error, TimeoutError) and "did not come true" in str(error)
    return isinstance(error, AssertionError | pytest.fail.Exception) or waited


def _play(item: pytest.Item, explored: Explored, exploration: Exploration, case: Case) -> Result:
    reports, run = _once(item, _Sibling(item), explored, case)
    result = exploration.result(case, run)
    if run.check:
        said = next(iter(run.output.splitlines()), "an assertion failed")
        result["outcomes"] = ["check_failed"]  # the test failed, so no loss is silent
        result["sentence"] = result["sentence"].replace("--check ended with exit code 1", f"and the test says: {said}")
    report = next((each for each in reports if each.when == "call"), reports[0])
    report.outcome = "failed" if is_broken(result) else "passed"
    report.longrepr = _sentence(result) if is_broken(result) else None
    report.sections = []
    _subtest(item, report, case["id"])
    return result


def _subtest(item: pytest.Item, report: pytest.TestReport, name: str) -> None:
    """Report a case as a subtest, if this version of pytest has subtests."""
    try:
        from _pytest.subtests import SubtestContext, SubtestReport
    except ImportError:
        return
    made = SubtestReport._new(report, SubtestContext(msg=name, kwargs={}), None, None)
    item.ihook.pytest_runtest_logreport(report=made)


def _sentence(result: Result) -> str:
    what = f"{place_of(result)} nth {result['nth']}: {fault_in_words(result)}"
    return f"{', '.join(result['outcomes'])}: {what} … {result['sentence']}"


def _fail(reports: list[pytest.TestReport], results: list[Result], exploration: Exploration) -> None:
    """Add the number of tried faults to pytest's report of the test's call. If faults broke the test, the report becomes a
    failure."""
    broken, count = [each for each in results if is_broken(each)], len(results)
    report = next((each for each in reports if each.when == "call"), None)
    if report is None:
        return
    report.user_properties.append(("explored", count))
    if broken:
        lines = [f"{len(broken)} of {count} faults break this test"]
        for found in exploration.findings(results):
            lines += [
                f"  {found.outcome}: {found.sentence}",
                f"    usual cause: {found.cause}",
                f"    look at: {found.look_at}",
            ]
            lines.append(f"    {found.results[0]['fault']}")
        report.outcome, report.longrepr = "failed", "\n".join(lines)
