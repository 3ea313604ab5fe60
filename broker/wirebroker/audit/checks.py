"""What the batches of one partition say of themselves: is every sequence stored once, in order, and undamaged?

Pure functions over `BatchRow`s in the order of the log, wherever these come from. Four things keep innocent logs clean:

* **Sequences are unwrapped**: they count modulo 2³¹, so that a batch's place is the running sum of the signed distances
  between neighbours of one producer and epoch. Duplicates and gaps are then looked for in the order of these places, and
  disorder, epochs and offsets in the order of the log, always against the neighbour and never against a running maximum:
  one sequence that is far too high is one gap, and no more.
* **A producer has lives**: where the timestamps of two neighbouring batches of it are at least
  `producer.id.expiration.ms` apart, and no transaction is open between them, the broker has forgotten it. Its sequences
  and epochs begin anew.
* **What is damaged is still believed a little**: the header of a batch with a bad checksum tells nothing of sequences, but
  when a producer lived and when its transactions ended; else a damaged marker would be told of twice.
* **Holes have reasons**: what lies below the log start is not looked at; missing sequences are no gap where at least
  as many offsets are missing that compaction has taken, or that lie in batches which cannot be trusted.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from wirebroker.audit.copies import Copied, copied
from wirebroker.audit.findings import BatchRow, Damage, Finding, Severity, severity_of

TRANSACTIONAL, CONTROL = 0x10, 0x20
SEQUENCES = 2**31
LEAST_BYTES = 61
"""A batch has at least its header."""
EXPIRATION_MS = 86_400_000


class Bounds(NamedTuple):
    """What is known of a partition besides its batches."""

    log_start: int = 0
    """Offsets below are gone by retention or DeleteRecords, even where their bytes are still there."""
    cleaned_to: int = 0
    """Compaction may have left holes below this offset (Kafka's cleaner-offset-checkpoint)."""
    expiration_ms: int = EXPIRATION_MS
    """producer.id.expiration.ms"""
    internal: bool = False
    """Of a coordinator's topic sequences say nothing: Kafka writes all its transactional batches with sequence 0."""
    now: int = -1
    """ms since the epoch, for how long transactions have been open; −1: the latest timestamp of the log"""


class _Placed(NamedTuple):
    """A batch and its unwrapped first sequence."""

    place: int
    order: int
    """in the log, among the batches of this producer and epoch"""
    row: BatchRow

    @property
    def end(self) -> int:
        return self.place + self.row.last_offset - self.row.base_offset

    def offset(self, place: int) -> int:
        """Where the sequence at this place is stored."""
        return self.row.base_offset + place - self.place


def check_partition(entries: Iterable[BatchRow | Damage], bounds: Bounds | None = None) -> list[Finding]:
    """Every finding that the batches of one partition give by themselves; `entries` in the order of the log."""
    bounds = bounds or Bounds()
    entries = list(entries)
    if bounds.now < 0:
        stamps = [each.max_timestamp for each in entries if isinstance(each, BatchRow)]
        bounds = bounds._replace(now=max(stamps, default=-1))
    kept = [each for each in entries if isinstance(each, Damage) or not _is_gone(each, bounds)]
    trusted, findings = _integrity(kept, bounds)
    sound = {id(row) for row in trusted}
    holes = _Holes(kept, sound, bounds)
    by_producer: dict[int, list[BatchRow]] = defaultdict(list)
    for row in kept:
        if isinstance(row, BatchRow) and row.producer_id >= 0:
            by_producer[row.producer_id].append(row)
    for rows in by_producer.values():
        findings += _transactions(rows, sound, bounds)
        for whole in _lives(rows, bounds.expiration_ms):
            life = [row for row in whole if id(row) in sound]
            findings += _epochs(life)
            if not bounds.internal:
                findings += _sequences(life, holes)
    return sorted(findings, key=lambda each: (each.first_offset, each.kind))


def _is_gone(row: BatchRow, bounds: Bounds) -> bool:
    return max(row.base_offset, row.last_offset) < bounds.log_start


# Damage


def _integrity(kept: Sequence[BatchRow | Damage], bounds: Bounds) -> tuple[list[BatchRow], list[Finding]]:
    """The batches whose headers can be trusted, and what is wrong with the others, and with the offsets."""
    sound: list[BatchRow] = []
    findings = []
    for each in kept:
        if isinstance(each, Damage):
            findings.append(_damaged(each, sound[-1].last_offset + 1 if sound else bounds.log_start))
        elif each.crc_stored != each.crc_computed:
            findings.append(
                _found("crc", each, f"the batch at offset {each.base_offset} has the checksum {each.crc_stored:#010x}, and "
                       f"its bytes have {each.crc_computed:#010x}; its header cannot be trusted")
            )  # fmt: skip
        elif fault := _contradiction(each, bounds):
            findings.append(_found("bad_batch", each, f"the batch at offset {each.base_offset} contradicts itself: {fault}"))
        else:
            if sound and each.base_offset <= sound[-1].last_offset:
                before = sound[-1]
                findings.append(
                    _found("offset_regression", each, f"a batch begins at offset {each.base_offset}, and the one before it "
                           f"ends at {before.last_offset}", before=_place(before))
                )  # fmt: skip
            sound.append(each)
    return sound, findings


def _contradiction(row: BatchRow, bounds: Bounds) -> str:
    """What a header says that cannot be; "" if nothing."""
    span = row.last_offset - row.base_offset + 1
    if row.bytes < LEAST_BYTES:
        return f"it has {row.bytes} bytes, and a header alone has {LEAST_BYTES}"
    if span < 1 or row.records < 0:
        return f"it ends at offset {row.last_offset} and counts {row.records} records"
    if row.records > span or (row.records < span and row.base_offset >= bounds.cleaned_to):
        return f"it counts {row.records} records and spans {span} offsets"
    if row.base_sequence >= 0 and (row.base_sequence + span - 1) % SEQUENCES != row.last_sequence:
        return f"it spans {span} offsets, and its sequences go from {row.base_sequence} to {row.last_sequence}"
    if row.producer_id >= 0 and row.base_sequence < 0 and not row.attributes & CONTROL and not bounds.internal:
        return f"it has the producer id {row.producer_id} and no sequence"
    return ""


def _damaged(damage: Damage, offset: int) -> Finding:
    place = f"the batch at position {damage.position} of {damage.segment}, about offset {offset},"
    evidence = {"segment": damage.segment, "position": damage.position, "bytes": damage.bytes}
    return Finding(
        damage.kind, "certain", damage.topic, damage.partition, -1, -1, -1, -1, offset, offset, json.dumps(evidence),
        f"{damage.topic}-{damage.partition}: {place} {damage.reason}",
    )  # fmt: skip


class _Holes:
    """Offsets that no sound batch has, where there is a reason for it; counted between any two."""

    def __init__(self, kept: Sequence[BatchRow | Damage], sound: set[int], bounds: Bounds) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before = [0]
        """how many offsets the holes before each have together"""
        reach, doubtful = bounds.log_start, False
        for each in kept:
            if isinstance(each, Damage) or id(each) not in sound:
                doubtful = True
                continue
            end = each.base_offset if doubtful else min(each.base_offset, bounds.cleaned_to)
            if end > reach:
                self._starts.append(reach)
                self._ends.append(end)
                self._before.append(self._before[-1] + end - reach)
            reach, doubtful = max(reach, each.last_offset + 1), False

    def between(self, one: BatchRow, other: BatchRow) -> int:
        """How many offsets between two batches are missing for a reason."""
        first, last = sorted((one, other), key=lambda row: row.base_offset)
        return max(self._below(last.base_offset) - self._below(first.last_offset + 1), 0)

    def _below(self, offset: int) -> int:
        index = bisect_right(self._starts, offset)
        overhang = max(self._ends[index - 1] - offset, 0) if index else 0
        return self._before[index] - overhang


# Epochs and sequences


def _lives(rows: Sequence[BatchRow], expiration_ms: int) -> Iterator[list[BatchRow]]:
    """The batches of one producer, cut where the broker had forgotten it."""
    life = [rows[0]]
    for before, row in pairwise(rows):
        within_transaction = before.attributes & TRANSACTIONAL and not before.attributes & CONTROL
        if row.max_timestamp - before.max_timestamp >= expiration_ms and not within_transaction:
            yield life
            life = []
        life.append(row)
    yield life


def _epochs(life: Sequence[BatchRow]) -> Iterator[Finding]:
    for before, row in pairwise(life):
        if row.producer_epoch < before.producer_epoch:
            yield _found(
                "epoch_regression", row, f"{_what(row)} stored at {_offsets(row.base_offset, row.last_offset)}, behind "
                f"epoch {before.producer_epoch} of the same producer at {_offsets(before.base_offset, before.last_offset)}",
                before=_place(before),
            )  # fmt: skip


def _sequences(life: Sequence[BatchRow], holes: _Holes) -> Iterator[Finding]:
    epochs: dict[int, list[BatchRow]] = defaultdict(list)
    lower: dict[int, BatchRow] = {}
    """by epoch, the batch of an older one behind which it begins"""
    for index, row in enumerate(life):
        if row.base_sequence < 0 or row.producer_epoch < 0:
            continue
        epoch = row.producer_epoch
        if epoch not in epochs and index and 0 <= life[index - 1].producer_epoch < epoch:
            lower[epoch] = life[index - 1]
        epochs[epoch].append(row)
    for epoch, rows in epochs.items():
        placed = _unwrapped(rows)
        doubled = yield from _duplicates(placed)
        yield from _gaps(placed, lower.get(epoch), holes)
        yield from _disorder([each for each in placed if each.order not in doubled])


def _unwrapped(rows: Sequence[BatchRow]) -> list[_Placed]:
    placed = [_Placed(rows[0].base_sequence, 0, rows[0])]
    for order, (before, row) in enumerate(pairwise(rows), 1):
        distance = (row.base_sequence - before.base_sequence) % SEQUENCES
        if distance >= SEQUENCES // 2:
            distance -= SEQUENCES
        placed.append(_Placed(placed[-1].place + distance, order, row))
    return placed


def _duplicates(placed: Sequence[_Placed]) -> Generator[Finding, None, set[int]]:
    """A finding for each batch of which something was stored before; returns the orders of these batches."""
    doubled = set()
    for each in copied([(one.place, one.end) for one in placed]):
        doubled.add(each.batch)
        yield _stored_twice(placed[each.batch], each, placed[each.first], placed[each.last])
    return doubled


def _stored_twice(again: _Placed, copy: Copied, first: _Placed, last: _Placed) -> Finding:
    """All sequences of a batch that were stored before: side by side at best, else from one place to another."""
    start, end = copy.start, copy.end
    row, what = again.row, _what(again.row, start, end)
    once, twice = (first.offset(start), last.offset(end)), (again.offset(start), again.offset(end))
    every = copy.doubled == end - start + 1
    if every and once[1] - once[0] == end - start:
        where = f"at {_offsets(*once)} and at {_range(*twice)}"
    else:
        where = (
            f"from {start % SEQUENCES} at offset {once[0]} to {end % SEQUENCES} at offset {once[1]}, "
            f"and again at {_offsets(*twice)}"
        )
    what = what if every else f"{copy.doubled} of {what}"
    evidence = {"first": _place(first.row)} | ({"last": _place(last.row)} if last is not first else {})
    return _found("duplicate", row, f"{what} stored twice: {where}", (start, end), twice, **evidence, again=_place(row))


def _gaps(placed: Sequence[_Placed], lower: BatchRow | None, holes: _Holes) -> Iterator[Finding]:
    ordered = sorted(placed, key=lambda each: each[:2])
    first = ordered[0]
    if lower is not None and first.place > 0 and holes.between(lower, first.row) < first.place:
        yield _found(
            "gap", first.row, f"{_what(first.row, 0, first.place - 1)} missing: the epoch begins behind offset "
            f"{lower.last_offset}, at offset {first.row.base_offset} with sequence {first.row.base_sequence}",
            (0, first.place - 1), (lower.last_offset, first.row.base_offset), before=_place(lower), behind=_place(first.row),
        )  # fmt: skip
    reach = first
    for each in ordered[1:]:
        missing = each.place - reach.end - 1
        if missing > 0 and holes.between(reach.row, each.row) < missing:
            places = (reach.end + 1, each.place - 1)
            yield _found(
                "gap", each.row, f"{_what(each.row, *places)} missing: {reach.row.last_sequence} is stored at offset "
                f"{reach.row.last_offset} and {each.row.base_sequence} at offset {each.row.base_offset}",
                places, (reach.row.last_offset, each.row.base_offset), before=_place(reach.row), behind=_place(each.row),
            )  # fmt: skip
        if (each.end, -each.order) > (reach.end, -reach.order):  # of several that reach as far the first that is stored
            reach = each


def _disorder(placed: Sequence[_Placed]) -> Iterator[Finding]:
    for before, each in pairwise(placed):
        if each.place < before.place:
            row, other = each.row, before.row
            yield _found(
                "disorder", row, f"{_what(row)} stored out of order: at {_offsets(row.base_offset, row.last_offset)}, "
                f"behind {_range(other.base_sequence, other.last_sequence)} at "
                f"{_offsets(other.base_offset, other.last_offset)}", before=_place(other),
            )  # fmt: skip


# Transactions


def _transactions(rows: Sequence[BatchRow], sound: set[int], bounds: Bounds) -> Iterator[Finding]:
    """Transactions of one producer without an end, and ends without a beginning.

    A batch that is not sound may end one, and may be why an end has no beginning, but begins none: its header may lie.
    """
    begun: BatchRow | None = None
    perhaps = False
    before: BatchRow | None = None
    for row in rows:
        if row.attributes & CONTROL:
            if not perhaps and id(row) in sound and not _may_have_lost_data(before, bounds):
                yield _found("marker_without_data", row, f"a transaction of {_who(row)} ended at offset {row.base_offset} "
                             "without a batch of it being stored here")  # fmt: skip
            begun, perhaps = None, False
        elif row.attributes & TRANSACTIONAL:
            if id(row) in sound:
                begun = begun or row
            perhaps = True
        before = row
    if begun is not None:
        duration = max(bounds.now - begun.max_timestamp, 0)
        yield _found("open_transaction", begun, f"the transaction that {_who(begun)} began at offset {begun.base_offset} has "
                     f"neither been committed nor aborted; it has been open for {_duration(duration)}",
                     open_ms=duration)  # fmt: skip


def _may_have_lost_data(before: BatchRow | None, bounds: Bounds) -> bool:
    """Whether batches of a transaction may have been deleted or compacted away that were behind the producer's last one."""
    if before is None:
        return bounds.log_start > 0 or bounds.cleaned_to > 0
    return before.base_offset < bounds.cleaned_to


# Words


def _found(
    kind: str, row: BatchRow, sentence: str, places: tuple[int, int] | None = None,
    offsets: tuple[int, int] | None = None, **evidence: Any,
) -> Finding:  # fmt: skip
    """A finding about a batch, or about other sequences and offsets of its producer."""
    severity: Severity = severity_of(kind)
    first, last = places or (row.base_sequence, row.last_sequence)
    return Finding(
        kind, severity, row.topic, row.partition, row.producer_id, row.producer_epoch,
        first % SEQUENCES if places else first, last % SEQUENCES if places else last,
        *(offsets or (row.base_offset, row.last_offset)),
        json.dumps({"batch": _place(row)} | evidence), f"{row.topic}-{row.partition}: {sentence}",
    )  # fmt: skip


def _place(row: BatchRow) -> dict[str, int | str]:
    return {
        "offsets": f"{row.base_offset}-{row.last_offset}", "epoch": row.producer_epoch,
        "sequences": f"{row.base_sequence}-{row.last_sequence}", "timestamp": row.max_timestamp, "segment": row.segment,
        "position": row.position,
    }  # fmt: skip


def _who(row: BatchRow) -> str:
    return f"producer {row.producer_id} epoch {row.producer_epoch}"


def _what(row: BatchRow, first: int | None = None, last: int | None = None) -> str:
    """Some sequences of a batch's producer, by default those of the batch, as the subject of a sentence."""
    if first is None or last is None:
        if row.base_sequence < 0:
            return f"a {'marker' if row.attributes & CONTROL else 'batch'} of {_who(row)} is"
        first, last = row.base_sequence, row.last_sequence
    one = first == last
    numbers = _range(first % SEQUENCES, last % SEQUENCES)
    return f"sequence{'' if one else 's'} {numbers} of {_who(row)} {'is' if one else 'are'}"


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _offsets(first: int, last: int) -> str:
    return f"offset{'' if first == last else 's'} {_range(first, last)}"


def _duration(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:,.1f} s"
