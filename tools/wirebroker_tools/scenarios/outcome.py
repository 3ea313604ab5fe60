"""The outcome of a run, counted from the log and from the client's reports to the application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from wirebroker.mock import StoredRecord
from wirebroker.testing.operations import visible
from wirebroker_tools.scenarios.journal import Journal
from wirebroker_tools.scenarios.scenario import Expect, OutcomeName


@dataclass(slots=True)
class Counts:
    """The number of records with each outcome. A record that was sent several times counts once, except in `stored` and
    `doubled`.
    """

    sent: int = 0
    stored: int = 0
    """records that a read_committed consumer gets; each copy of a record counts"""
    doubled: int = 0
    """copies of a record in addition to its first copy"""
    lost: int = 0
    """acknowledged but not stored"""
    failed: int = 0
    """reported as failed, and not acknowledged by another attempt"""
    failed_stored: int = 0
    """reported as failed but stored; no client can prevent this in every case"""
    untold: int = 0
    """records whose outcome the client never reported"""
    displaced: int = 0
    """records in the wrong order: they are stored before a record that the same producer sent earlier to the same partition"""
    torn: int = 0
    """missing records, although other records of the same transaction are visible"""
    open: int = 0
    """records in transactions that are still open"""


@dataclass(slots=True)
class Outcome:
    """The outcome of a run: its name, the counts, and the differences from the expectation."""

    name: OutcomeName
    counts: Counts
    differences: list[str] = field(default_factory=list)


def count(journal: Journal, log: Sequence[StoredRecord], transactions: Sequence[Sequence[str]] = ()) -> Counts:
    """Count the records of each outcome. `log` holds all stored records of the topic; `transactions` holds the values of each
    transaction.
    """
    seen: list[StoredRecord] = []
    still_open: list[StoredRecord] = []
    for _, records in groupby(log, key=lambda record: record.partition):
        shown, unfinished = visible(records)
        seen += shown
        still_open += unfinished
    values = Counter(_value(record) for record in seen)
    intended = dict.fromkeys(each.value for each in journal.sent)
    acknowledged = journal.acknowledged()
    failed = {each.value for each in journal.told if each.error} - acknowledged
    return Counts(
        sent=len(intended),
        stored=sum(values[value] for value in intended),
        doubled=sum(max(values[value] - 1, 0) for value in intended),
        lost=sum(values[value] == 0 for value in (acknowledged & intended.keys()) - journal.deleted),
        failed=len(failed),
        failed_stored=sum(values[value] > 0 for value in failed),
        untold=len(intended.keys() - acknowledged - failed),
        displaced=_displaced(journal, seen),
        torn=sum(_torn(each, values) for each in transactions),
        open=len([record for record in still_open if _value(record) in intended]),
    )


def _value(record: StoredRecord) -> str:
    return (record.value or b"").decode()


def _torn(transaction: Sequence[str], values: Counter[str]) -> int:
    missing = sum(values[value] == 0 for value in transaction)
    return missing if missing < len(transaction) else 0


def _displaced(journal: Journal, seen: Sequence[StoredRecord]) -> int:
    """Returns the number of records that are stored before a record that was sent earlier. If a record was stored several
    times, only its first copy counts.
    """
    place: dict[str, tuple[int, int]] = {}
    for record in seen:
        place.setdefault(_value(record), (record.partition, record.offset))
    latest: dict[tuple[int, str], int] = {}
    found = 0
    for value, by in dict.fromkeys((each.value, each.by) for each in journal.sent):
        if value in place:
            partition, offset = place[value]
            before = latest.get((partition, by), -1)
            found += offset < before
            latest[partition, by] = max(before, offset)
    return found


def judge(counts: Counts, hung: bool, refused: bool, expect: Expect) -> Outcome:
    """Returns the outcome of a run. The outcome includes the differences from the expectation."""
    outcome = Outcome(_name(counts, hung, refused), counts)
    if outcome.name not in expect.outcome:
        outcome.differences.append(f"it {_verb(outcome.name)}; expected that it {' or '.join(map(_verb, expect.outcome))}")
    if refused:
        return outcome
    for word in ("stored", "doubled", "lost", "failed"):
        wanted, got = getattr(expect, word), getattr(counts, word)
        if wanted is not None and wanted != got:
            outcome.differences.append(f"{word}: {got} records, expected {wanted}")
    if counts.open:
        outcome.differences.append(f"{counts.open} records are in an open transaction")
    return outcome


def _verb(name: OutcomeName) -> str:
    return {"refuses": "refuses the settings", "loses": "loses records", "duplicates": "stores records twice",
            "reorders": "changes the order"}.get(name, name)  # fmt: skip


def _name(counts: Counts, hung: bool, refused: bool) -> OutcomeName:
    """Returns the worst outcome that applies."""
    if refused:
        return "refuses"
    if counts.lost or counts.torn:
        return "loses"
    if counts.doubled:
        return "duplicates"
    if counts.displaced:
        return "reorders"
    if hung or counts.untold:
        return "hangs"
    return "fails cleanly" if counts.failed else "recovers"
