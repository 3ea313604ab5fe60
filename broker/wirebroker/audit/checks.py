"""The checks of one partition's batches: is every sequence stored once, in order and undamaged?

The functions are pure, and take `BatchRow`s in the order of the log. Four rules keep clean logs free of findings:

* **Sequences are unwrapped.** Sequences start again at 0 after 2³¹ − 1, so the checks use places instead. A batch's place is
  the running sum of the signed distances between the first sequences of neighbouring batches of the same producer and epoch.
  For duplicates and gaps, the batches are checked in the order of their places. For disorder, epochs and offsets, they are
  checked in the order of the log. Each batch is compared with its neighbour and never with a running maximum. So a single
  sequence that is far too high causes only one gap.
* **A producer has lives.** If the timestamps of two neighbouring batches are at least `producer.id.expiration.ms` apart, and no
  transaction is open in this time, the broker has forgotten the producer: its sequences and epochs start again.
* **Damaged headers still count for lifetimes and transaction ends**, though not for sequences. Otherwise a damaged marker would
  also be reported as a transaction without an end.
* **Holes have reasons.** Nothing below the log start is checked. Missing sequences are not a gap if compaction or damage
  accounts for at least as many missing offsets. Missing offsets without a reason are a finding of their own (`offset_gap`),
  unless sequence gaps at the same place account for at least as many records.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from kafkawire.batches import CONTROL, HEADER_SIZE, SEQUENCES, TRANSACTIONAL
from wirebroker.audit.copies import Copied, copied
from wirebroker.audit.findings import EXPIRATION_MS, BatchRow, Damage, Finding, severity_of
from wirebroker.audit.rules import Rules
from wirebroker.audit.wording import Wording

RULES, WORDS = Rules(), Wording()


class Bounds(NamedTuple):
    """A partition's limits and settings."""

    log_start: int = 0
    """Retention or DeleteRecords deleted the offsets below this offset, even if their bytes are still stored."""
    cleaned_to: int = 0
    """Compaction may have left holes below this offset (Kafka's cleaner-offset-checkpoint)."""
    expiration_ms: int = EXPIRATION_MS
    """producer.id.expiration.ms"""
    internal: bool = False
    """Tells whether the topic is a coordinator's topic, in which Kafka writes all transactional batches with sequence 0."""
    now: int = -1
    """the time until which open transactions have lasted: the present time in ms since the epoch, or −1 for the latest
    timestamp of the log"""


class _Placed(NamedTuple):
    """A batch and its unwrapped first sequence."""

    place: int
    order: int
    """the batch's position in the log among the batches of this producer and epoch"""
    row: BatchRow

    @property
    def end(self) -> int:
        return self.place + self.row.last_offset - self.row.base_offset

    def offset(self, place: int) -> int:
        """Returns the offset at which the sequence at this place is stored."""
        return self.row.base_offset + place - self.place


def check_partition(entries: Iterable[BatchRow | Damage], bounds: Bounds | None = None) -> list[Finding]:
    """Returns every finding in the batches of one partition. `entries` are in the order of the log."""
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
    if not bounds.internal:
        findings += _offset_gaps(holes.unexplained, findings)
    return sorted(findings, key=lambda each: (each.first_offset, each.kind))


def _is_gone(row: BatchRow, bounds: Bounds) -> bool:
    return max(row.base_offset, row.last_offset) < bounds.log_start


# Damage


def _integrity(kept: Sequence[BatchRow | Damage], bounds: Bounds) -> tuple[list[BatchRow], list[Finding]]:
    """Returns two lists: the batches with sound headers; and the findings about all other batches, and about offsets."""
    sound: list[BatchRow] = []
    findings = []
    for each in kept:
        if isinstance(each, Damage):
            findings.append(_damaged(each, sound[-1].last_offset + 1 if sound else bounds.log_start))
        elif each.crc_stored != each.crc_computed:
            findings.append(_found("crc", each, WORDS.crc(each)))
        elif reason := _contradiction(each, bounds):
            words = WORDS.damaged(each.segment, each.position, each.base_offset, reason)
            findings.append(_found("bad_batch", each, words))
        else:
            if sound and RULES.is_offset_regression(each.base_offset, sound[-1].last_offset):
                before = sound[-1]
                words = WORDS.offset_regression(each, before.last_offset)
                findings.append(_found("offset_regression", each, words, before=_place(before)))
            sound.append(each)
    return sound, findings


def _contradiction(row: BatchRow, bounds: Bounds) -> str:
    """Returns a clause about fields of a header that contradict each other; "" if no fields do."""
    span = row.last_offset - row.base_offset + 1
    if row.bytes < HEADER_SIZE:
        return f"it has {row.bytes} bytes, but a header alone has {HEADER_SIZE}"
    if span < 1 or row.records < 0:
        return f"it ends at offset {row.last_offset} and counts {row.records} records"
    if row.records > span or (row.records < span and row.base_offset >= bounds.cleaned_to):
        return f"it counts {row.records} records but spans {span} offsets"
    if row.base_sequence >= 0 and (row.base_sequence + span - 1) % SEQUENCES != row.last_sequence:
        return f"it spans {span} offsets, but its sequences go from {row.base_sequence} to {row.last_sequence}"
    if row.producer_id >= 0 and row.base_sequence < 0 and not row.attributes & CONTROL and not bounds.internal:
        return f"it has the producer id {row.producer_id} but no sequence"
    return ""


def _damaged(damage: Damage, offset: int) -> Finding:
    evidence = {"segment": damage.segment, "position": damage.position, "bytes": damage.bytes}
    words = WORDS.damaged(damage.segment, damage.position, offset, damage.reason)
    return Finding(
        damage.kind, "certain", damage.topic, damage.partition, -1, -1, -1, -1, offset, offset, json.dumps(evidence),
        f"{WORDS.partition(damage.topic, damage.partition)}: {words}",
    )  # fmt: skip


def _offset_gaps(unexplained: Sequence[tuple[int, BatchRow]], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yields a finding for each offset hole. A hole is not a finding if sequence gaps at the same place account for at least as
    many records."""
    gaps = [(each, (each.last_sequence - each.first_sequence) % SEQUENCES + 1) for each in findings if each.kind == "gap"]
    begins = _Sums((each.first_offset, missing) for each, missing in gaps if each.first_offset < each.last_offset)
    ends = _Sums((each.last_offset, missing) for each, missing in gaps if each.first_offset < each.last_offset)
    for first, row in unexplained:
        if begins.below(first) - ends.below(row.base_offset) < row.base_offset - first:
            evidence = json.dumps({"after": _place(row)})
            words = WORDS.offset_gap(first, row.base_offset - 1)
            yield Finding(
                "offset_gap", severity_of("offset_gap"), row.topic, row.partition, -1, -1, -1, -1, first, row.base_offset - 1,
                evidence, f"{WORDS.partition(row.topic, row.partition)}: {words}",
            )  # fmt: skip


class _Sums:
    """Amounts at offsets. `below` returns the sum of the amounts at all offsets below a given offset."""

    def __init__(self, amounts: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(amounts)
        self._offsets = [offset for offset, _ in ordered]
        self._sums = [0, *accumulate(amount for _, amount in ordered)]

    def below(self, offset: int) -> int:
        return self._sums[bisect_left(self._offsets, offset)]


class _Holes:
    """Counts the missing offsets that compaction or damage explains. `unexplained` has all other missing offsets."""

    def __init__(self, kept: Sequence[BatchRow | Damage], sound: set[int], bounds: Bounds) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before = [0]
        """for each hole, the number of missing offsets in all earlier holes"""
        self.unexplained: list[tuple[int, BatchRow]] = []
        """the first missing offset, and the batch after the missing offsets"""
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
            if not doubtful and each.base_offset > (known := max(reach, bounds.cleaned_to)):
                self.unexplained.append((known, each))
            reach, doubtful = max(reach, each.last_offset + 1), False

    def between(self, one: BatchRow, other: BatchRow) -> int:
        """Returns how many of the missing offsets between two batches are explained."""
        first, last = sorted((one, other), key=lambda row: row.base_offset)
        return max(self._below(last.base_offset) - self._below(first.last_offset + 1), 0)

    def _below(self, offset: int) -> int:
        index = bisect_right(self._starts, offset)
        overhang = max(self._ends[index - 1] - offset, 0) if index else 0
        return self._before[index] - overhang


# Epochs and sequences


def _lives(rows: Sequence[BatchRow], expiration_ms: int) -> Iterator[list[BatchRow]]:
    """Yields lists of one producer's batches. A new list begins wherever the broker has forgotten the producer."""
    life = [rows[0]]
    for before, row in pairwise(rows):
        is_idle = before.attributes & (TRANSACTIONAL | CONTROL) != TRANSACTIONAL
        if RULES.is_forgotten(row.max_timestamp - before.max_timestamp, expiration_ms, is_idle):
            yield life
            life = []
        life.append(row)
    yield life


def _epochs(life: Sequence[BatchRow]) -> Iterator[Finding]:
    for before, row in pairwise(life):
        if RULES.is_epoch_regression(row.producer_epoch, before.producer_epoch):
            words = WORDS.epoch_regression(row, bool(row.attributes & CONTROL), before)
            yield _found("epoch_regression", row, words, before=_place(before))


def _sequences(life: Sequence[BatchRow], holes: _Holes) -> Iterator[Finding]:
    epochs: dict[int, list[BatchRow]] = defaultdict(list)
    lower: dict[int, BatchRow] = {}
    """for each epoch, the batch before the epoch's first batch"""
    for index, row in enumerate(life):
        if row.base_sequence < 0 or row.producer_epoch < 0:
            continue
        epoch = row.producer_epoch
        if epoch not in epochs and index:
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
        place = placed[-1].place + RULES.distance(before.base_sequence, row.base_sequence)
        placed.append(_Placed(place, order, row))
    return placed


def _duplicates(placed: Sequence[_Placed]) -> Generator[Finding, None, set[int]]:
    """Yields a finding for each batch whose sequences were, at least in part, stored before.

    At the end, returns the `order` of each of these batches.
    """
    doubled = set()
    for each in copied([(one.place, one.end) for one in placed]):
        doubled.add(each.batch)
        yield _stored_twice(placed[each.batch], each, placed[each.first], placed[each.last])
    return doubled


def _stored_twice(again: _Placed, copy: Copied, first: _Placed, last: _Placed) -> Finding:
    """Returns one finding for all sequences of a batch that were stored before."""
    places = copy.start, copy.end
    once, offsets = (first.offset(copy.start), last.offset(copy.end)), (again.offset(copy.start), again.offset(copy.end))
    words = WORDS.duplicate(again.row, _numbers(places), copy.doubled, once, offsets)
    evidence = {"first": _place(first.row)} | ({"last": _place(last.row)} if last is not first else {})
    return _found("duplicate", again.row, words, places, offsets, **evidence, again=_place(again.row))


def _gaps(placed: Sequence[_Placed], lower: BatchRow | None, holes: _Holes) -> Iterator[Finding]:
    ordered = sorted(placed, key=lambda each: each[:2])
    first = ordered[0]
    if lower is not None and RULES.is_late_start(first.place, lower.producer_epoch, first.row.producer_epoch):
        places = (0, first.place - 1)
        if RULES.is_unexplained(first.place, holes.between(lower, first.row)):
            yield _gap(WORDS.late_start(first.row, _numbers(places), lower, first.row), places, lower, first.row)
    reach = first
    for each in ordered[1:]:
        places = (reach.end + 1, each.place - 1)
        if RULES.is_gap(each.place, reach.end) and RULES.is_unexplained(
            each.place - places[0], holes.between(reach.row, each.row)
        ):
            yield _gap(WORDS.gap(each.row, _numbers(places), reach.row, each.row), places, reach.row, each.row)
        if (each.end, -each.order) > (reach.end, -reach.order):  # of two batches with the same end, choose the one stored first
            reach = each


def _gap(words: str, places: tuple[int, int], before: BatchRow, after: BatchRow) -> Finding:
    offsets = (before.last_offset, after.base_offset)
    return _found("gap", after, words, places, offsets, before=_place(before), after=_place(after))


def _disorder(placed: Sequence[_Placed]) -> Iterator[Finding]:
    for before, each in pairwise(placed):
        if RULES.is_disorder(each.place, before.place):
            yield _found("disorder", each.row, WORDS.disorder(each.row, before.row), before=_place(before.row))


# Transactions


def _transactions(rows: Sequence[BatchRow], sound: set[int], bounds: Bounds) -> Iterator[Finding]:
    """Yields a finding for each transaction of one producer that has no end, and for each end of a transaction that has no
    beginning.

    A batch that is not sound does not begin a transaction, because its header may be wrong. But it may end a transaction, or
    explain an end without a beginning.
    """
    begun: BatchRow | None = None
    perhaps = False
    before: BatchRow | None = None
    for row in rows:
        if row.attributes & CONTROL:
            if not perhaps and id(row) in sound and not _may_have_lost_data(before, bounds):
                yield _found("marker_without_data", row, WORDS.marker_without_data(row))
            begun, perhaps = None, False
        elif row.attributes & TRANSACTIONAL:
            if id(row) in sound:
                begun = begun or row
            perhaps = True
        before = row
    if begun is not None:
        duration = max(bounds.now - begun.max_timestamp, 0)
        yield _found("open_transaction", begun, WORDS.open_transaction(begun, duration), open_ms=duration)


def _may_have_lost_data(before: BatchRow | None, bounds: Bounds) -> bool:
    """Tells whether retention or compaction may have removed later batches of the producer's transaction. `before` is the
    producer's last stored batch."""
    if before is None:
        return bounds.log_start > 0 or bounds.cleaned_to > 0
    return before.base_offset < bounds.cleaned_to


# Findings


def _numbers(places: tuple[int, int]) -> tuple[int, int]:
    """Returns the sequences at these places."""
    return places[0] % SEQUENCES, places[1] % SEQUENCES


def _found(
    kind: str, row: BatchRow, sentence: str, places: tuple[int, int] | None = None,
    offsets: tuple[int, int] | None = None, **evidence: Any,
) -> Finding:  # fmt: skip
    """Returns a finding about a batch. `places` and `offsets` are given if the finding is about other sequences and offsets
    than the batch's own."""
    first, last = (row.base_sequence, row.last_sequence) if places is None else _numbers(places)
    return Finding(
        kind, severity_of(kind), row.topic, row.partition, row.producer_id, row.producer_epoch, first, last,
        *(offsets or (row.base_offset, row.last_offset)),
        json.dumps({"batch": _place(row)} | evidence), f"{WORDS.partition(row.topic, row.partition)}: {sentence}",
    )  # fmt: skip


def _place(row: BatchRow) -> dict[str, int | str]:
    return {
        "offsets": f"{row.base_offset}-{row.last_offset}", "epoch": row.producer_epoch,
        "sequences": f"{row.base_sequence}-{row.last_sequence}", "timestamp": row.max_timestamp, "segment": row.segment,
        "position": row.position,
    }  # fmt: skip
