"""Makes the report of a failed test. For each broker, the report shows the latest verdicts and records, the groups,
transactions, faults and findings. It also has pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkawire.printable import printable
from wirebroker.audit.content import head
from wirebroker.testing import states
from wirebroker.testing.group_lines import UNREADABLE, group_lines, listed
from wirebroker.testing.operations import Fate, StoredRecord, commits, fates, shown, stored_records
from wirebroker.tools import Finding, installed_tools
from wirebroker.trace.layout import PLACE, line
from wirebroker.trace.rows import Row, TestRow

if TYPE_CHECKING:
    from wirebroker.engine.engine import Engine

MOST = 20
"""A section has at most this many lines."""


class Report:
    """A broker's part of the report. Each section has only the latest items since the last reset."""

    def __init__(self, engine: Engine, traced: Sequence[Row], findings: Sequence[Finding]) -> None:
        self._engine, self.findings = engine, findings
        names = [row for row in traced[:-MOST] if isinstance(row, TestRow)]
        self.rows = [*names[-1:], *traced[-MOST:]]  # the row with the test's name stays, even if it is old
        self.records = _last_records(engine)
        self.faults = _faults(engine)

    def sections(self) -> dict[str, str]:
        """Returns the report's non-empty sections by title."""
        found = {
            "the last verdicts": [line(row) for row in self.rows],
            "the last records": [_shown(*each) for each in self.records],
            "its groups": group_lines(self._engine)[:MOST],
            "the last rebalances and commits": _history(self._engine)[-MOST:],
            "its transactions": [_transaction(each) for each in states.transactions(self._engine).values()][-MOST:],
            "its faults, as the text of a fault file": self.faults.split("\n"),
            "what is wrong": [text for each in self.findings for text in _finding(each)][:MOST],
        }
        return {title: "\n".join(map(printable, lines)) for title, lines in found.items() if any(lines)}


def sections(engine: Engine) -> dict[str, str]:
    """Returns the non-empty sections of a broker's report by title."""
    rows = engine.trace.events()
    return Report(engine, rows, findings_in(rows, engine.now)).sections()


def pictures(traced: Iterable[Row]) -> Mapping[str, str]:
    """Returns the non-empty pictures of the latest rows, as SVG files by kind."""
    tools = installed_tools()
    return tools.pictures_of_failure(traced) if tools is not None else {}


def findings_in(rows: Sequence[Row], now: int) -> Sequence[Finding]:
    """Returns the findings in these rows, the most important finding first. The search takes 0.1 s for 10,000 rows."""
    tools = installed_tools()
    return tools.findings(rows, now) if tools is not None else ()


def _finding(found: Finding) -> list[str]:
    return [f"{found.kind}: {found.sentence}", f"  usual cause: {found.cause}", f"  look at:     {found.look_at}"]


def _history(engine: Engine) -> Sequence[str]:
    tools = installed_tools()
    with suppress(*UNREADABLE):
        return tools.history_of_groups(engine) if tools is not None else ()
    return ()


def _last_records(engine: Engine) -> list[tuple[StoredRecord, Fate]]:
    found: list[tuple[StoredRecord, Fate]] = []
    for topic in engine.cluster.topics.values():
        for partition in () if topic.internal else topic.partitions:
            with suppress(*UNREADABLE):
                fate = fates(partition)
                found += [(each, fate(each)) for each in stored_records(partition, partition.log_end_offset - MOST)]
    return sorted(found, key=lambda each: (each[0].timestamp, each[0].offset))[-MOST:]


def _shown(record: StoredRecord, fate: Fate) -> str:
    place = f"{record.topic}-{record.partition}"
    if record.control:
        how = "commit" if commits(record) else "abort"
        return f"{place:<{PLACE}} offset {record.offset:<6} {'marker':<9} {how} of producer {record.producer_id}"
    headers = "".join(f"  {name}: {shown(value)}" for name, value in record.headers)
    what = f"key {shown(record.key)}  value {shown(record.value)}{headers}"
    return f"{place:<{PLACE}} offset {record.offset:<6} {fate:<9} {what}"


def _transaction(shown: states.Transaction) -> str:
    where = listed([f"{part.topic}-{index}" for part in shown.partitions for index in part.partitions])
    who = f"producer {shown.producer_id} epoch {shown.producer_epoch}"
    return f"{head(shown.transactional_id.encode()):<{PLACE}} {shown.state}, {who}{where and f', {where}'}"


def _faults(engine: Engine) -> str:
    from wirebroker.faults.files import dump

    rules = engine.plan.rules
    counts = "".join(printable(f"# fired {rule.fired} of {rule.seen}: {rule}") + "\n" for rule in rules)
    return dump(rules, engine.plan.seed) + counts if rules else ""
