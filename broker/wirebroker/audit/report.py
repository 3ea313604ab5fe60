"""The audit's result: findings, counts, a readable table, and an assertion that lists the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from kafkawire.batches import CONTROL
from kafkawire.printable import printable
from wirebroker.audit.checks import Bounds, check_partition
from wirebroker.audit.findings import COPIES, INTERNAL_TOPICS, KINDS, BatchRow, Damage, Finding, RecordRow, plural, weight
from wirebroker.audit.journal import Intended, Rows, intended_rows
from wirebroker.audit.reconcile import Where, reconcile
from wirebroker.audit.stored import Contents, StoredPartition
from wirebroker.common.suggestions import did_you_mean
from wirebroker.trace.rows import ProduceRow

SHOWN, SAID = 10, 100
"""The table shows at most `SHOWN` findings of each kind, and the assertion lists at most `SAID` findings.

All other findings are only counted.
"""
COUNTED = (
    "partitions", "batches", "records", "producers", "committed", "aborted", "open", "recognised", "rejected",
)  # fmt: skip
"""The counts of each topic.

The counts include only records that a read_committed consumer gets. A transaction counts once on each of its partitions.
Recognised retries and rejected batches come from the trace.
"""


class AuditReport:
    """The findings in some partitions when the report was made.

    `arrivals` are the verdicts of the trace. `intended` are the records that an application meant to send (`audit.journal`); if
    `topics` are named, records for other topics are ignored.
    """

    def __init__(
        self, partitions: Sequence[StoredPartition], *, arrivals: Iterable[ProduceRow] = (), intended: Rows | None = None,
        topics: Iterable[str] | None = None,
    ) -> None:  # fmt: skip
        self._topics = None if topics is None else set(topics)
        self._counts: dict[str, Counter[str]] = {each.topic: Counter() for each in partitions}
        self._producers: dict[str, set[int]] = {each.topic: set() for each in partitions}
        self._records: list[RecordRow] = []
        self._deleted: dict[Where, int] = {}
        self._of_batches: list[Finding] = []
        for each in partitions:
            self._add(each)
        for row in arrivals:
            if row.topic in self._counts and row.verdict != "accepted":
                self._counts[row.topic]["recognised" if row.verdict == "duplicate" else "rejected"] += 1
        self.intended: list[Intended] | None = None
        self.findings: list[Finding] = []
        self.notices: list[str] = []
        self._reconcile(intended)

    def _add(self, partition: StoredPartition) -> None:
        contents = partition.read()
        bounds = contents.bounds
        found = check_partition(contents.entries, bounds)
        self._of_batches += found
        self._deleted[partition.topic, partition.partition] = _deleted(contents.entries, bounds)
        if not bounds.internal:
            self._records += contents.records
        self._count(partition.topic, contents, found)

    def _count(self, topic: str, contents: Contents, found: Iterable[Finding]) -> None:
        batches = [each for each in contents.entries if isinstance(each, BatchRow) and not each.attributes & CONTROL]
        self._producers[topic] |= {each.producer_id for each in batches if each.producer_id >= 0}
        self._counts[topic].update(
            partitions=1, batches=len(batches), records=sum(each.counts for each in contents.records),
            committed=contents.committed, aborted=contents.aborted,
            open=sum(each.kind == "open_transaction" for each in found),
        )  # fmt: skip

    def _reconcile(self, intended: Rows | None) -> None:
        if intended is not None:
            rows = intended_rows(intended)
            self.intended = [row for row in rows if self._topics is None or row.topic in self._topics]
        told = {
            (each.topic, each.partition, offset)
            for each in self._of_batches
            if each.kind == "duplicate"
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        self.notices = []
        by_content = reconcile(self._records, self.intended, told=told, deleted=self._deleted, notices=self.notices)
        self.findings = self._of_batches + by_content

    # For tests

    def of(self, kind: str) -> list[Finding]:
        """Returns the findings of one kind. Raises ValueError for a kind that does not exist."""
        if kind not in KINDS:
            raise ValueError(f"there is no kind of finding {kind!r}{did_you_mean(kind, KINDS)}")
        return [each for each in self.findings if each.kind == kind]

    def summary(self) -> dict[str, Any]:
        """Returns the counts of each topic (`COUNTED`) and of all topics together, and the number of findings by kind.

        Without a journal, `intended` is None. With a journal, `intended` is the number of intended records. `lost` is the
        number of missing records, and `doubled` the number of extra copies. `notices` are sentences about contents that could
        not be compared.
        """
        topics = {
            name: {what: len(self._producers[name]) if what == "producers" else counts[what] for what in COUNTED}
            for name, counts in self._counts.items()
        }
        total = {what: sum(counts[what] for counts in topics.values()) for what in COUNTED}
        return {
            "batches": total["batches"],
            "records": total["records"],
            "producers": len(set().union(*self._producers.values())),
            "transactions": {state: total[state] for state in ("committed", "aborted", "open")},
            "retries": {verdict: total[verdict] for verdict in ("recognised", "rejected")},
            "intended": None if self.intended is None else len(self.intended),
            "lost": sum(each.kind == "lost" and each.severity != "info" for each in self.findings),
            "doubled": sum(_span(each) for each in self.findings if each.kind in COPIES),
            "findings": dict(Counter(each.kind for each in self.findings)),
            "notices": self.notices,
            "topics": topics,
        }

    def assert_exactly_once(self, intended: Rows | None = None) -> None:
        """Raise AssertionError with a sentence for each finding whose severity is not info.

        With the application's `intended` records (`audit.journal`), the assertion also fails if a record is missing. A record
        that was intended twice may then be stored twice.
        """
        __tracebackhide__ = True
        if intended is not None:
            self._reconcile(intended)
        wrong = [each for each in self._by_weight() if each.severity != "info"]
        if not wrong:
            return
        lines = [f"delivery was not exactly once: {plural(len(wrong), 'finding')}"]
        lines += [f"  {each.kind}: {each.explanation}" for each in wrong[:SAID]]
        if len(wrong) > SAID:
            lines.append(f"  … and {len(wrong) - SAID:,} more")
        lines += [f"  note: {notice}" for notice in self.notices]
        if self.intended is None and any(each.severity == "likely" for each in wrong):
            lines.append(
                "Records with equal content count as copies. If the application sends equal records on purpose, pass intended=…"
            )
        raise AssertionError("\n".join(map(printable, lines)))

    def __repr__(self) -> str:
        return f"AuditReport({printable('; '.join(line.strip() for line in self._listed()[:SHOWN]))})"

    def __str__(self) -> str:
        told_of = {each.topic for each in self.findings}
        rows = [("topic", *COUNTED)]
        for name, counts in self.summary()["topics"].items():
            if name not in INTERNAL_TOPICS or name in told_of:
                rows.append((name, *map(str, counts.values())))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}" for i, (cell, width) in enumerate(pairs))
            for pairs in (list(zip(row, widths, strict=True)) for row in rows)
        ]
        return "\n".join(map(printable, [*self._listed(), "", *lines]))

    def _by_weight(self) -> list[Finding]:
        return sorted(self.findings, key=lambda each: weight(each.severity, each.kind))

    def _listed(self) -> list[str]:
        against = "" if self.intended is None else f" against {plural(len(self.intended), 'intended record')}"
        lines = [f"{plural(len(self.findings), 'finding') if self.findings else 'no finding'}{against}"]
        for (severity, kind), group in groupby(self._by_weight(), lambda each: (each.severity, each.kind)):
            alike = list(group)
            lines += [f"  {severity:<8} {kind}: {each.explanation}" for each in alike[:SHOWN]]
            if len(alike) > SHOWN:
                lines.append(f"           … and {len(alike) - SHOWN:,} more of {kind}")
        return lines + [f"note: {notice}" for notice in self.notices]


def _span(finding: Finding) -> int:
    return finding.last_offset - finding.first_offset + 1


def _deleted(entries: Iterable[BatchRow | Damage], bounds: Bounds) -> int:
    """Returns the number of offsets that retention, DeleteRecords and compaction removed."""
    reach, gone = bounds.log_start, bounds.log_start
    for row in entries:
        if isinstance(row, BatchRow) and row.base_offset < bounds.cleaned_to and row.last_offset >= reach:
            span = row.last_offset - max(row.base_offset, reach) + 1
            gone += max(row.base_offset - reach, 0) + max(span - row.records, 0)
            reach = row.last_offset + 1
    return gone
