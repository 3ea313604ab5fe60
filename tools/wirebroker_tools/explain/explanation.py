"""Reads the rows of a trace with all detectors, and returns their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from wirebroker.trace.levels import LEVELS
from wirebroker.trace.rows import FaultRow, Row, RunRow
from wirebroker.trace.selection import ExchangeKey, exchange_of
from wirebroker_tools.explain.access import Denials, LoginFailures, Throttling, TlsFailures, UnsupportedVersions
from wirebroker_tools.explain.connections import LostConnections, MissingCoordinators
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.findings import Finding, ranked
from wirebroker_tools.explain.groups import MissingCommits, PoisonRecords, Rejoins
from wirebroker_tools.explain.refusals import Refusals
from wirebroker_tools.explain.speed import LeaderMoves, SlowBrokers
from wirebroker_tools.explain.transactions import Transactions

DETECTORS: tuple[Callable[[], Detector], ...] = (
    TlsFailures, LoginFailures, Denials, UnsupportedVersions, Throttling, Transactions, MissingCoordinators, LostConnections,
    Rejoins, MissingCommits, PoisonRecords, Refusals, SlowBrokers, LeaderMoves,
)  # fmt: skip


class Explanation:
    """Reads the rows of a trace, the oldest first, and finds problems. It needs a limited amount of memory, however long the
    trace is."""

    def __init__(self) -> None:
        self._skipped = 0
        self._detectors = [make() for make in DETECTORS]
        self._takers: dict[str, list[Callable[[int, Row], None]]] = {}
        for detector in self._detectors:
            for event in detector.events:
                self._takers.setdefault(event, []).append(detector.take)
        self.rows = 0
        """The number of rows that were read."""
        self.latest = 0
        """The time of the latest row."""
        self._seen: set[str] = set()
        self._faults: Known[ExchangeKey, str] = Known(str)
        """For each exchange in which a fault fired, the fault's rule."""

    def skip(self, rows: int) -> None:
        """Remember that the next `rows` rows of the trace are left out. The numbers of the later rows include these rows."""
        self._skipped += rows

    def take(self, row: Row) -> None:
        """Take the next row."""
        self.rows += 1
        self.latest = max(self.latest, row.time)
        event = row.event
        self._seen.add(event)
        if isinstance(row, FaultRow):
            self._faults.put(exchange_of(row), row.rule)
        elif isinstance(row, RunRow):
            self._faults = Known(str)
            for detector in self._detectors:
                detector.begin_run()
        for take in self._takers.get(event, ()):
            take(self._skipped + self.rows, row)

    def take_all(self, rows: Iterable[Row]) -> Explanation:
        """Take the rows in order. Returns this object."""
        for row in rows:
            self.take(row)
        return self

    def findings(self, now: int | None = None) -> list[Finding]:
        """Returns the findings at the time `now` (in ms since the epoch), the most important first. If `now` is None, it is the
        time of the latest row.
        """
        moment = self.latest if now is None else now
        found = (finding for detector in self._detectors for finding in detector.findings(moment))
        return ranked(map(self._with_faults, found))

    def _with_faults(self, finding: Finding) -> Finding:
        """Returns the finding. If a fault of the test affected rows of the finding, the returned finding has a remark about the
        fault.
        """
        rows = finding.evidence.rows
        rules = [rule for each in rows if (rule := self._faults.get(exchange_of(each.row)))]
        if not rules:
            return finding
        named = ", ".join(dict.fromkeys(rules))
        if len(rules) < len(rows):
            return replace(finding, sentence=f"{finding.sentence} A fault caused some of it: {named}.")
        return replace(
            finding, sentence=f"{finding.sentence} A fault caused it: {named}.", cause=f"the test asked for it: {named}"
        )

    @property
    def blind(self) -> str:
        """Returns a warning if the level of the trace is so low that the trace lacks rows which the detectors need. Otherwise
        returns "".
        """
        if not self.rows or self._seen & {*LEVELS["exchanges"], *LEVELS["all"]}:
            return ""
        return "The trace has no requests, so most kinds of findings cannot be seen; trace with --trace-level exchanges or all."
