"""Findings by content: records that are stored again and, with a journal, lost records.

The functions are pure, and take `RecordRow`s. Records are compared within their topic, and only if a read_committed consumer
gets them. Without a journal, a record is *likely* a copy if another record has the same content (key, value, headers). A
journal names records by key and value, and so gives the number of copies that should be stored. The finding about a further
copy is then *certain*. Without a journal, tombstones and contents that repeat too often (`matching.Repeats`) cannot identify
duplicates.

The first copy on a partition is the copy with the lowest offset. If several partitions have a copy, the copy with the lowest
timestamp is the original. `Wording.kind` names the kind of a further copy. A further copy is compared with the first copy on
its partition. The first copy on a partition is compared with the original.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wirebroker.audit.content import head
from wirebroker.audit.findings import Finding, RecordRow, Severity
from wirebroker.audit.journal import Intended
from wirebroker.audit.matching import MANY, Place, Repeats, Wish, copies_of, is_tombstone, match
from wirebroker.audit.wording import Wording

Identity = tuple[str, bytes | None, str | None]
"""topic, key, hash of the value: a journal names a record by these"""
Where = tuple[str, int]
"""topic and partition"""
WORDS = Wording()


class _Copy(NamedTuple):
    """A record that is stored again, and the copy with which it is compared."""

    first: RecordRow
    again: RecordRow
    severity: Severity

    @property
    def kind(self) -> str:
        """The kind of finding."""
        return str(WORDS.kind(self.first, self.again))


def reconcile(
    records: Iterable[RecordRow],
    intended: Iterable[Intended] | None = None,
    *,
    told: Collection[tuple[str, int, int]] = (),
    deleted: Mapping[Where, int] | None = None,
    notices: list[str] | None = None,
) -> list[Finding]:
    """Returns every finding by content.

    `told` holds the records (topic, partition, offset) that the checks of batches have already reported as duplicates.
    `deleted` is the number of offsets that retention or compaction removed from each partition. `notices` receives a sentence
    for each topic whose contents cannot identify duplicates.
    """
    stored: dict[Identity, list[RecordRow]] = defaultdict(list)
    hidden: dict[Identity, RecordRow] = {}
    for row in records:
        identity = (row.topic, row.key, row.value_hash)
        if row.counts:
            stored[identity].append(row)
        else:
            hidden[identity] = row
    named: dict[Identity, list[Intended]] = defaultdict(list)
    for each in intended or ():
        named[each.topic, each.key, each.digest].append(each)
    copies: list[_Copy] = []
    findings: list[Finding] = []
    missing: list[tuple[Intended, RecordRow | None]] = []
    unnamed: dict[str, list[list[RecordRow]]] = defaultdict(list)
    for identity, rows in stored.items():
        if identity not in named:
            if not is_tombstone(*identity[1:]):
                unnamed[identity[0]] += _by_content(rows)
            continue
        wanted = named[identity]
        matched = match([_place(row) for row in rows], [Wish(each.partition, each.acknowledged) for each in wanted])
        copies += [_copy(rows[first], rows[again], "certain") for again, first in matched.beyond]
        findings += [_unacknowledged(rows[copy], wanted[wish]) for copy, wish in matched.failed]
        missing += [(wanted[wish], rows[0]) for wish in matched.missing]
    for identity, wanted in named.items():
        if identity not in stored:
            missing += [(each, hidden.get(identity)) for each in wanted if each.acknowledged is not False]
    copies += _likely(unnamed, [] if notices is None else notices)
    findings += _lost(missing, deleted or {})
    known = set(told)
    fresh = [each for each in copies if each.kind != "duplicate" or _address(each.again) not in known]
    findings += [_stored_again(run) for run in _runs(fresh)]
    return sorted(findings, key=lambda each: (each.topic, each.partition, each.first_offset, each.kind))


def _address(row: RecordRow) -> tuple[str, int, int]:
    return row.topic, row.partition, row.offset


# Copies


def _place(row: RecordRow) -> Place:
    return Place(row.partition, row.offset, row.timestamp)


def _copy(first: RecordRow, again: RecordRow, severity: Severity) -> _Copy:
    """Returns a copy. A copy with the same sequence is a certain finding, even without a journal."""
    copy = _Copy(first, again, severity)
    return copy._replace(severity="certain") if copy.kind == "duplicate" else copy


def _by_content(rows: Sequence[RecordRow]) -> Iterable[list[RecordRow]]:
    by_content: dict[str, list[RecordRow]] = defaultdict(list)
    for row in rows:
        by_content[row.content].append(row)
    return by_content.values()


def _likely(unnamed: Mapping[str, Sequence[Sequence[RecordRow]]], notices: list[str]) -> Iterator[_Copy]:
    """Yields the copies among the records that no journal names; `unnamed` holds these records by topic, grouped by content."""
    for topic, contents in unnamed.items():
        repeats = Repeats.of(map(len, contents))
        if (notice := repeats.notice(topic, "intended=…")) is not None:
            notices.append(notice)
        for alike in () if repeats.vague else contents:
            if 1 < len(alike) <= MANY:
                for again, first in copies_of([_place(row) for row in alike]):
                    yield _copy(alike[first], alike[again], "likely")


def _runs(copies: Iterable[_Copy]) -> Iterator[list[_Copy]]:
    """Groups neighbouring copies with the same producers and epochs, if their originals are neighbours, too."""

    def likeness(copy: _Copy) -> tuple[Any, ...]:
        first, again = copy.first, copy.again
        who = (first.producer_id, first.producer_epoch, again.producer_id, again.producer_epoch)
        return (again.topic, again.partition, first.partition, copy.kind, copy.severity, *who)

    run: list[_Copy] = []
    for copy in sorted(copies, key=lambda each: (likeness(each), each.again.offset)):
        if run:
            last = run[-1]
            beside = copy.again.offset == last.again.offset + 1 and copy.first.offset == last.first.offset + 1
            if not beside or likeness(copy) != likeness(last):
                yield run
                run = []
        run.append(copy)
    if run:
        yield run


class _Run(NamedTuple):
    """Neighbouring copies, in the form that `Wording.stored_twice` reads."""

    kind: str
    records: int
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    first_partition: int
    first_producer_id: int
    first_producer_epoch: int
    first_base_sequence: int
    first_last_sequence: int
    first_base_offset: int
    first_last_offset: int
    label: str


def _stored_again(copies: Sequence[_Copy]) -> Finding:
    one, end = copies[0], copies[-1]
    first, again = one.first, one.again
    run = _Run(one.kind, len(copies), *_side(again, end.again), *_side(first, end.first),
               WORDS.label(again.key is not None, head(again.key), again.value_head))  # fmt: skip
    evidence = {
        "records": len(copies),
        "first": _evidence(first, end.first),
        "again": _evidence(again, end.again),
        "key": head(again.key),
        "value": again.value_head,
        "same_timestamps": all(each.first.timestamp == each.again.timestamp for each in copies),
    }
    return Finding(
        one.kind, one.severity, again.topic, *_side(again, end.again), json.dumps(evidence),
        f"{WORDS.partition(again.topic, again.partition)}: {WORDS.stored_twice(run)}",
    )  # fmt: skip


def _side(first: RecordRow, last: RecordRow) -> tuple[int, int, int, int, int, int, int]:
    who = first.partition, first.producer_id, first.producer_epoch
    return *who, first.sequence, last.sequence, first.offset, last.offset


def _evidence(first: RecordRow, last: RecordRow) -> dict[str, int]:
    names = (
        "partition", "producer_id", "producer_epoch", "first_sequence", "last_sequence", "first_offset", "last_offset",
    )  # fmt: skip
    return dict(zip(names, _side(first, last), strict=True)) | {"timestamp": first.timestamp}


# The journal


def _unacknowledged(row: RecordRow, intended: Intended) -> Finding:
    words = WORDS.unacknowledged_stored(intended, row.offset)
    return Finding(
        "unacknowledged_stored", "certain", row.topic, *_side(row, row),
        json.dumps({"key": head(row.key), "producer": intended.producer}),
        f"{WORDS.partition(row.topic, row.partition)}: {words}",
    )  # fmt: skip


def _lost(missing: Sequence[tuple[Intended, RecordRow | None]], deleted: Mapping[Where, int]) -> Iterator[Finding]:
    """Yields a finding for each record that is not stored.

    If the number of deleted offsets is at least the number of missing records, all missing records may have been deleted.
    """
    groups: dict[tuple[str, int | None], list[tuple[Intended, RecordRow | None]]] = defaultdict(list)
    for each, near in missing:
        groups[each.topic, each.partition].append((each, near))
    for (topic, partition), pairs in groups.items():
        gone = sum(n for where, n in deleted.items() if where[0] == topic and partition in (None, where[1]))
        severity: Severity = "certain" if not gone else "info" if len(pairs) <= gone else "likely"
        for intended, near in pairs:
            yield _missing(intended, near, severity, gone, len(pairs))


def _missing(intended: Intended, near: RecordRow | None, severity: Severity, gone: int, missing: int) -> Finding:
    partition = -1 if intended.partition is None else intended.partition
    words = WORDS.lost(intended, intended.acknowledged, _reason(intended, near), missing, gone)
    evidence = {"key": head(intended.key), "acknowledged": intended.acknowledged, "producer": intended.producer}
    return Finding(
        "lost", severity, intended.topic, partition, -1, -1, -1, -1, -1, -1, json.dumps(evidence),
        f"{WORDS.partition(intended.topic, partition)}: {words}",
    )  # fmt: skip


def _reason(intended: Intended, near: RecordRow | None) -> str:
    """Returns the reason why the intended record does not count as stored. `near` is a similar record that does not count as a
    copy of the intended record."""
    if near is None:
        return ""
    if not near.counts:
        return str(WORDS.in_transaction(near.partition, near.offset, near.transaction == "aborted"))
    if intended.partition not in (None, near.partition):
        return f"; partition {near.partition} has it at offset {near.offset}"
    return " as often as it was intended"
