"""A producer's batches as a picture in text: stored batches, duplicates and gaps.

A batch of an idempotent producer lies at its sequences, one without a producer id at its offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from wirebroker.trace.doublings import remarks_on
from wirebroker.trace.layout import COLOURS, PLAIN, time_of_day
from wirebroker.trace.rows import ProduceRow, Row

SEQUENCES = 2**31
WIDTH = 48
"""Columns of the picture."""
FOLDED = 4
"""Like batches in a row that are drawn as one line; fewer have a line each."""
LINES = 60
"""Lines of one picture. If there are more, neighbours share a line."""
MARKS = {"accepted": "█", "duplicate": "▒", "rejected": "×"}
MISSING = "·"

Span = tuple[int, int]
"""From the first to the last sequence or offset; counting goes on after the wrap of sequences to 0."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in the picture."""

    row: ProduceRow
    span: Span
    gap: Span | None
    """the sequences that are missing before it"""
    remark: str

    def is_followed_by(self, other: Batch) -> bool:
        """Whether the other one is alike and goes on after this one, or is the same batch again."""
        if self.remark or other.remark or (self.row.verdict, self.row.code) != (other.row.verdict, other.row.code):
            return False
        if (self.gap is None) != (other.gap is None) or (self.gap and other.gap and self.gap[0] != other.gap[0]):
            return False
        goes_on = other.span[0] == self.span[1] + 1 if self.row.producer_id >= 0 else other.span[0] > self.span[1]
        return goes_on or self.span == other.span


def timelines(rows: Iterable[ProduceRow], colour: bool = False, context: Iterable[Row] = ()) -> Iterator[str]:
    """The lines of one picture for each producer epoch on each partition, in the order of their first batches.

    `context` are all rows of the trace, with the faults; remarks on the batches come from them.
    """
    found: dict[tuple[object, ...], list[ProduceRow]] = {}
    for row in rows:
        key = (row.producer_id, row.producer_epoch) if row.producer_id >= 0 else (row.client_id,)
        found.setdefault((row.topic, row.partition, *key), []).append(row)
    remarks = remarks_on(context)
    for number, batches in enumerate(found.values()):
        if number:
            yield ""
        yield from _timeline(batches, remarks, colour)


def _timeline(rows: list[ProduceRow], remarks: dict[int, str], colour: bool) -> Iterator[str]:
    idempotent = rows[0].producer_id >= 0
    spans = _sequences(rows) if idempotent else _offsets(rows)
    whole = min(first for first, _ in spans), max(last for _, last in spans)
    yield _heading(rows[0], whole)
    batches = list(_batches(rows, spans, remarks))
    for group in _lines(batches):
        yield _line(group, whole, colour)
    yield f"  {_summary(batches, whole if idempotent else None)}"


def _heading(row: ProduceRow, whole: Span) -> str:
    place = f"{row.topic}-{row.partition}"
    if row.producer_id < 0:
        return f"client {row.client_id!r} without idempotence on {place}: offsets {_shown(whole, wraps=False)}"
    return f"producer {row.producer_id} epoch {row.producer_epoch} on {place}: sequences {_shown(whole)}"


def _sequences(rows: list[ProduceRow]) -> list[Span]:
    """The sequences of each batch, counted on where they wrap from 2³¹−1 to 0."""
    wrapped = max(row.first_sequence for row in rows) - min(row.first_sequence for row in rows) > SEQUENCES // 2
    spans = []
    for row in rows:
        first = row.first_sequence + (SEQUENCES if wrapped and row.first_sequence < SEQUENCES // 2 else 0)
        spans.append((first, first + (row.last_sequence - row.first_sequence) % SEQUENCES))
    return spans


def _offsets(rows: list[ProduceRow]) -> list[Span]:
    """The offsets of each batch; one that has none lies where the next would be stored."""
    end = next((row.base_offset for row in rows if row.base_offset >= 0), 0)
    spans = []
    for row in rows:
        first = row.base_offset if row.base_offset >= 0 else end
        spans.append((first, first + max(row.records, 1) - 1))
        end = spans[-1][1] + 1 if row.base_offset >= 0 else end
    return spans


def _batches(rows: list[ProduceRow], spans: list[Span], remarks: dict[int, str]) -> Iterator[Batch]:
    expected: int | None = None
    for row, span in zip(rows, spans, strict=True):
        is_gap = row.producer_id >= 0 and row.verdict == "rejected" and expected is not None and expected < span[0]
        yield Batch(row, span, (expected, span[0] - 1) if is_gap and expected is not None else None, remarks.get(id(row), ""))
        if row.verdict == "accepted":
            expected = span[1] + 1


def _lines(batches: list[Batch]) -> list[list[Batch]]:
    """The batches of each line: long runs are folded, and if there are still too many lines, neighbours join."""
    runs: list[list[Batch]] = []
    for batch in batches:
        if runs and _extends(runs[-1], batch):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    lines = [line for run in runs for line in ([run] if len(run) >= FOLDED else [[batch] for batch in run])]
    share = -(-len(lines) // LINES)
    return [list(chain.from_iterable(lines[at : at + share])) for at in range(0, len(lines), share)]


def _extends(run: list[Batch], batch: Batch) -> bool:
    if not run[-1].is_followed_by(batch):
        return False
    return len(run) == 1 or _goes_on(run) == (batch.span != run[-1].span)


def _goes_on(run: Sequence[Batch]) -> bool:
    return run[0].span != run[-1].span


def _line(batches: list[Batch], whole: Span, colour: bool) -> str:
    verdicts = Counter(batch.row.verdict for batch in batches)
    word = batches[0].row.verdict if len(verdicts) == 1 else "mixed"
    picture, padded = _picture(batches, whole), f"{word:<9}"
    if colour and word != "mixed":
        picture, padded = (f"{COLOURS[word]}{text}{PLAIN}" for text in (picture, padded))
    span = batches[0].span[0], max(batch.span[1] for batch in batches)
    when, shown = time_of_day(batches[0].row.time), _shown(span, wraps=batches[0].row.producer_id >= 0)
    outcome = _outcome(batches) if word != "mixed" else ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
    remarks = [batch.remark for batch in batches if batch.remark]
    more = f" (and {len(remarks) - 1:,} more)" if remarks[1:] else ""
    return f"  {when}  {shown:<15} |{picture}|  {padded}  {outcome}" + (f"  ◄ {remarks[0]}{more}" if remarks else "")


def _picture(batches: list[Batch], whole: Span) -> str:
    columns = [" "] * WIDTH
    low, width = whole[0], whole[1] - whole[0] + 1
    parts = [(batch.gap, MISSING) for batch in batches] + [
        (batch.span, mark) for verdict, mark in MARKS.items() for batch in batches if batch.row.verdict == verdict
    ]
    for part, mark in parts:
        if part is not None:
            start = (part[0] - low) * WIDTH // width
            stop = ((part[1] + 1 - low) * WIDTH - 1) // width + 1
            columns[start:stop] = mark * (stop - start)
    return "".join(columns)


def _outcome(batches: list[Batch]) -> str:
    """The result of batches with the same verdict."""
    first, last = batches[0].row, batches[-1].row
    count = "" if len(batches) == 1 else f"{len(batches):,} {'batches' if _goes_on(batches) else 'times'}, "
    offsets = f"offset {first.base_offset}"
    if len(batches) > 1 and _goes_on(batches):
        offsets = f"offsets {first.base_offset}–{last.base_offset + max(last.records, 1) - 1}"
    if first.verdict == "accepted":
        return count + offsets
    if first.verdict == "duplicate":
        return count + (f"of {offsets}" if first.base_offset >= 0 else "not stored again")
    gap = batches[0].gap
    errors = dict.fromkeys(f"{batch.row.code} {batch.row.error}" for batch in batches)
    return count + ", ".join(errors) + (f", missing {_shown(gap)}" if gap is not None else "")


def _summary(batches: list[Batch], whole: Span | None) -> str:
    """The verdicts counted; `whole` are the sequences, if the producer has any."""
    counts = [f"{sum(batch.row.verdict == verdict for batch in batches):,} {verdict}" for verdict in MARKS]
    if whole is None:
        return ", ".join(counts) + "; without sequences, so a retry is not recognised"
    lacking = list(_lacking(sorted(batch.span for batch in batches if batch.row.verdict == "accepted"), whole))
    return ", ".join(counts) + (f"; never stored: {', '.join(map(_shown, lacking))}" if lacking else "; nothing is missing")


def _lacking(stored: list[Span], whole: Span) -> Iterator[Span]:
    """The parts of the whole that no stored span covers."""
    at = whole[0]
    for first, last in stored:
        if first > at:
            yield at, first - 1
        at = max(at, last + 1)
    if at <= whole[1]:
        yield at, whole[1]


def _shown(span: Span, wraps: bool = True) -> str:
    first, last = (each % SEQUENCES for each in span) if wraps else span
    return str(first) if first == last else f"{first}–{last}"
