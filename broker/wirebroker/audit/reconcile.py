"""What the records say by their content: which are stored again, and, against a journal, which are lost.

Pure functions over `RecordRow`s. Records are compared within their topic, and only those that a read_committed consumer
is given: what was aborted is not stored. Without a journal equal content (key, value, headers) is *likely* the same record.
For records that the journal names, by key and value, it says how often they are meant to be there, and what goes beyond
is *certain*. Contents that repeat too often for that (`matching.Repeats`) tell nothing apart, and are left to a journal.

The first copy of a partition is the one with the lowest offset; of several partitions the one with the lowest timestamp
is taken for the original. A further copy is compared with the first of its partition, else with the original:

    another partition                       partition_duplicate
    another producer id                     session_duplicate
    no producer id, both                    application_duplicate: it, or a retry without idempotence
    the same id, another epoch              epoch_duplicate
    the same id and epoch, other sequences  application_duplicate
    the same id, epoch and sequence         duplicate, unless the batches have told of it already
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wirebroker.audit.content import head
from wirebroker.audit.findings import Finding, RecordRow, Severity
from wirebroker.audit.journal import Intended
from wirebroker.audit.matching import MANY, Place, Repeats, Wish, compared, in_order, match

Identity = tuple[str, bytes | None, str | None]
"""topic, key, hash of the value: by this a journal names a record"""
Where = tuple[str, int]
"""topic and partition"""


class _Copy(NamedTuple):
    """A record that is stored again, and the copy that it is compared with."""

    first: RecordRow
    again: RecordRow
    severity: Severity

    @property
    def kind(self) -> str:
        """As the table above says."""
        first, again = self.first, self.again
        if first.partition != again.partition:
            return "partition_duplicate"
        if first.producer_id != again.producer_id:
            return "session_duplicate"
        if first.producer_id < 0:
            return "application_duplicate"
        if first.producer_epoch != again.producer_epoch:
            return "epoch_duplicate"
        return "duplicate" if first.sequence == again.sequence >= 0 else "application_duplicate"


def reconcile(
    records: Iterable[RecordRow],
    intended: Iterable[Intended] | None = None,
    *,
    told: Collection[tuple[str, int, int]] = (),
    deleted: Mapping[Where, int] | None = None,
    notices: list[str] | None = None,
) -> list[Finding]:
    """Every finding that content gives. `told` are the records (topic, partition, offset) of which the batches have told
    as duplicates already; `deleted` says how many offsets retention or compaction took from a partition; to `notices` is
    added what contents cannot tell."""
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
            unnamed[identity[0]] += _by_content(rows)
            continue
        ordered = _in_order(rows)
        matched = _match(ordered, named[identity])
        copies += _copies(ordered, matched.beyond, "certain")
        findings += [_unacknowledged(row, each) for row, each in matched.failed]
        missing += [(each, rows[0]) for each in matched.missing]
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


def _in_order(rows: Sequence[RecordRow]) -> list[RecordRow]:
    return [rows[index] for index in in_order([Place(row.partition, row.offset, row.timestamp) for row in rows])]


def _copies(ordered: Sequence[RecordRow], again: Container[int], severity: Severity) -> Iterator[_Copy]:
    """Those of `ordered` that are stored `again`, by their positions, each with what it is compared with."""
    for index, first in enumerate(compared([row.partition for row in ordered])):
        if first is not None and index in again:
            copy = _Copy(ordered[first], ordered[index], severity)
            yield copy._replace(severity="certain") if copy.kind == "duplicate" else copy


def _by_content(rows: Sequence[RecordRow]) -> Iterable[list[RecordRow]]:
    by_content: dict[str, list[RecordRow]] = defaultdict(list)
    for row in rows:
        by_content[row.content].append(row)
    return by_content.values()


def _likely(unnamed: Mapping[str, Sequence[Sequence[RecordRow]]], notices: list[str]) -> Iterator[_Copy]:
    """The copies among the records of each topic that no journal names; they are given by their contents."""
    for topic, contents in unnamed.items():
        repeats = Repeats.of(map(len, contents))
        if (notice := repeats.notice(topic, "intended=…")) is not None:
            notices.append(notice)
        for alike in () if repeats.vague else contents:
            if 1 < len(alike) <= MANY:
                ordered = _in_order(alike)
                yield from _copies(ordered, range(1, len(ordered)), "likely")


def _runs(copies: Iterable[_Copy]) -> Iterator[list[_Copy]]:
    """Copies that lie side by side, both times, of the same producers and epochs, together."""

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


def _stored_again(run: Sequence[_Copy]) -> Finding:
    one, end = run[0], run[-1]
    again = one.again
    evidence = {
        "records": len(run),
        "first": _side(one.first, end.first),
        "again": _side(again, end.again),
        "key": head(again.key),
        "value": again.value_head,
        "same_timestamps": all(each.first.timestamp == each.again.timestamp for each in run),
    }
    return Finding(
        one.kind, one.severity, again.topic, again.partition, again.producer_id, again.producer_epoch, again.sequence,
        end.again.sequence, again.offset, end.again.offset, json.dumps(evidence), _sentence(run),
    )  # fmt: skip


def _side(first: RecordRow, last: RecordRow) -> dict[str, int]:
    return {
        "partition": first.partition, "producer_id": first.producer_id, "producer_epoch": first.producer_epoch,
        "first_sequence": first.sequence, "last_sequence": last.sequence, "first_offset": first.offset,
        "last_offset": last.offset, "timestamp": first.timestamp,
    }  # fmt: skip


def _sentence(run: Sequence[_Copy]) -> str:
    """`orders-0: records 125–132 of producer 12 are stored twice: at offsets 3–10 under epoch 0 and at …`"""
    first, again = run[0].first, run[0].again
    shown = ""
    if len(run) == 1:
        shown = f"; value {again.value_head}" if again.key is None else f"; key {head(again.key)}"
    return f"{first.topic}-{first.partition}: {_subject(run)} stored twice: {_places(run)}{shown}"


def _subject(run: Sequence[_Copy]) -> str:
    """`records 125–132 of producer 12 are`, by the sequences of the first copies, if they have any."""
    first, last = run[0].first, run[-1].first
    one = len(run) == 1
    if first.sequence < 0 or first.producer_id < 0:
        return "a record is" if one else f"{len(run)} records are"
    who = "" if run[0].kind == "session_duplicate" else f" of producer {first.producer_id}"
    return f"record{'' if one else 's'} {_range(first.sequence, last.sequence)}{who} {'is' if one else 'are'}"


def _places(run: Sequence[_Copy]) -> str:
    """Where and by whom both copies were written, and which sequences the later ones have, if others."""
    kind, first, again = run[0].kind, run[0].first, run[0].again
    once = f"at {_offsets(first.offset, run[-1].first.offset)}"
    if kind == "partition_duplicate":
        return f"{once} and on partition {again.partition} at {_offsets(again.offset, run[-1].again.offset)}"
    twice = f"and at {_range(again.offset, run[-1].again.offset)}"
    others = again.sequence not in (-1, first.sequence)
    there = f", there as {_range(again.sequence, run[-1].again.sequence)}" if others else ""
    if kind == "session_duplicate":
        return f"{once} by {_producer(first)} {twice} by {_producer(again)}{there}"
    if kind == "epoch_duplicate":
        return f"{once} under epoch {first.producer_epoch} {twice} under epoch {again.producer_epoch}{there}"
    if again.producer_id >= 0:
        return f"{once} {twice}, in the same epoch {again.producer_epoch}{there}"
    them = "it" if len(run) == 1 else "them"
    return f"{once} {twice}, without a producer id: a retry without idempotence, or the application sent {them} twice"


def _producer(row: RecordRow) -> str:
    return f"producer {row.producer_id}" if row.producer_id >= 0 else "a producer without an id"


# The journal


class _Matched(NamedTuple):
    """How copies and what was intended fit together."""

    beyond: set[int]
    """the copies that nothing was intended by"""
    failed: list[tuple[RecordRow, Intended]]
    missing: list[Intended]


def _match(rows: Sequence[RecordRow], wanted: Sequence[Intended]) -> _Matched:
    given = match([row.partition for row in rows], [Wish(each.partition, each.acknowledged) for each in wanted])
    pairs = list(zip(wanted, given, strict=True))
    return _Matched(
        beyond=set(range(len(rows))) - set(given),
        failed=[(rows[copy], each) for each, copy in pairs if copy is not None and each.acknowledged is False],
        missing=[each for each, copy in pairs if copy is None and each.acknowledged is not False],
    )


def _unacknowledged(row: RecordRow, intended: Intended) -> Finding:
    sentence = f"the record with {intended} is stored at offset {row.offset}, and its sending was reported as failed"
    return Finding(
        "unacknowledged_stored", "certain", row.topic, row.partition, row.producer_id, row.producer_epoch, row.sequence,
        row.sequence, row.offset, row.offset, json.dumps({"key": head(row.key), "producer": intended.producer}),
        f"{row.topic}-{row.partition}: {sentence}",
    )  # fmt: skip


def _lost(missing: Sequence[tuple[Intended, RecordRow | None]], deleted: Mapping[Where, int]) -> Iterator[Finding]:
    """What is not stored. As long as no more records are missing than were deleted, they may be among those."""
    groups: dict[tuple[str, int | None], list[tuple[Intended, RecordRow | None]]] = defaultdict(list)
    for each, near in missing:
        groups[each.topic, each.partition].append((each, near))
    for (topic, partition), pairs in groups.items():
        gone = sum(n for where, n in deleted.items() if where[0] == topic and partition in (None, where[1]))
        severity: Severity = "certain" if not gone else "info" if len(pairs) <= gone else "likely"
        for intended, near in pairs:
            yield _missing(intended, near, severity, gone, len(pairs))


def _missing(intended: Intended, near: RecordRow | None, severity: Severity, gone: int, missing: int) -> Finding:
    place = intended.topic if intended.partition is None else f"{intended.topic}-{intended.partition}"
    sentence = f"the record with {intended} {'was acknowledged and ' if intended.acknowledged else ''}is not stored"
    if near is not None and near.transaction in ("aborted", "open"):
        state = "was aborted" if near.transaction == "aborted" else "is open"
        sentence += f": the transaction that holds it at offset {near.offset} of partition {near.partition} {state}"
    elif near is not None and intended.partition not in (None, near.partition):
        sentence += f"; partition {near.partition} has it at offset {near.offset}"
    elif near is not None:
        sentence += " as often as it was intended"
    if severity == "info":
        sentence += f"; it may be among the {gone} offsets that were deleted"
    elif severity == "likely":
        sentence += f"; {missing} are missing, and no more than {gone} can have been deleted"
    evidence = {"key": head(intended.key), "acknowledged": intended.acknowledged, "producer": intended.producer}
    return Finding(
        "lost", severity, intended.topic, -1 if intended.partition is None else intended.partition, -1, -1, -1, -1, -1, -1,
        json.dumps(evidence), f"{place}: {sentence}",
    )  # fmt: skip


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _offsets(first: int, last: int) -> str:
    return f"offset{'' if first == last else 's'} {_range(first, last)}"
