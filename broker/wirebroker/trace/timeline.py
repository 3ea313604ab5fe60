"""A producer's sequences as a picture in text: stored batches, duplicates and gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wirebroker.trace.layout import COLOURS, PLAIN, time_of_day
from wirebroker.trace.rows import ProduceRow

SEQUENCES = 2**31
WIDTH = 48
"""Columns of the picture."""
MARKS = {"accepted": "█", "duplicate": "▒", "rejected": "×"}
MISSING = "·"

Span = tuple[int, int]
"""From the first to the last sequence; counting goes on after the wrap to 0."""


def timelines(rows: Iterable[ProduceRow], colour: bool = False) -> Iterator[str]:
    """The lines of one picture for each producer epoch on each partition, in the order of their first batches."""
    found: dict[tuple[str, int, int, int], list[ProduceRow]] = {}
    for row in rows:
        if row.producer_id >= 0 and row.first_sequence >= 0:
            found.setdefault((row.topic, row.partition, row.producer_id, row.producer_epoch), []).append(row)
    for number, batches in enumerate(found.values()):
        if number:
            yield ""
        yield from _timeline(batches, colour)


def _timeline(rows: list[ProduceRow], colour: bool) -> Iterator[str]:
    spans = _spans(rows)
    low, high = min(first for first, _ in spans), max(last for _, last in spans)
    first = rows[0]
    yield (
        f"producer {first.producer_id} epoch {first.producer_epoch} on {first.topic}-{first.partition}: "
        f"sequences {_shown((low, high))}"
    )
    stored: list[Span] = []
    for row, span in zip(rows, spans, strict=True):
        expected = stored[-1][1] + 1 if stored else None
        gap = (expected, span[0] - 1) if row.verdict == "rejected" and expected is not None and expected < span[0] else None
        picture = _picture(span, gap, low, high, MARKS[row.verdict])
        word = f"{row.verdict:<9}"
        if colour:
            picture, word = (f"{COLOURS[row.verdict]}{text}{PLAIN}" for text in (picture, word))
        when = time_of_day(row.time)
        yield f"  {when}  {_shown(span):<15} |{picture}|  {word}  {_outcome(row, gap)}"
        if row.verdict == "accepted":
            stored.append(span)
    yield f"  {_summary(rows, spans, stored, (low, high))}"


def _spans(rows: list[ProduceRow]) -> list[Span]:
    """The sequences of each batch, counted on where they wrap from 2³¹−1 to 0."""
    wrapped = max(row.first_sequence for row in rows) - min(row.first_sequence for row in rows) > SEQUENCES // 2
    spans = []
    for row in rows:
        first = row.first_sequence + (SEQUENCES if wrapped and row.first_sequence < SEQUENCES // 2 else 0)
        spans.append((first, first + (row.last_sequence - row.first_sequence) % SEQUENCES))
    return spans


def _picture(span: Span, gap: Span | None, low: int, high: int, mark: str) -> str:
    columns = [" "] * WIDTH
    for part, character in ((gap, MISSING), (span, mark)):
        if part is not None:
            start = (part[0] - low) * WIDTH // (high - low + 1)
            stop = ((part[1] + 1 - low) * WIDTH - 1) // (high - low + 1) + 1
            columns[start:stop] = character * (stop - start)
    return "".join(columns)


def _outcome(row: ProduceRow, gap: Span | None) -> str:
    if row.verdict == "accepted":
        return f"offset {row.base_offset}"
    if row.verdict == "duplicate":
        return f"of offset {row.base_offset}" if row.base_offset >= 0 else "not stored again"
    return f"{row.code} {row.error}" + (f", missing {_shown(gap)}" if gap is not None else "")


def _summary(rows: list[ProduceRow], spans: list[Span], stored: list[Span], whole: Span) -> str:
    counts = [f"{sum(row.verdict == verdict for row in rows)} {verdict}" for verdict in MARKS]
    lacking = list(_lacking(sorted(stored), (min(whole[0], *(span[0] for span in spans)), whole[1])))
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


def _shown(span: Span) -> str:
    first, last = (each % SEQUENCES for each in span)
    return str(first) if first == last else f"{first}–{last}"
