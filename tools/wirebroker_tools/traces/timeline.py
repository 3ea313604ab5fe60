"""Draws a producer's batches as text: stored batches, duplicates, gaps, and batches that a fault stopped.

A batch of an idempotent producer is drawn at its sequences. A batch without a producer id is drawn at its offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from kafkawire.printable import printable
from wirebroker.requests.facts import Batch as SentBatch
from wirebroker.trace.layout import COLOURS, PLAIN, time_of_day
from wirebroker.trace.rows import FaultRow, ProduceRow, Row
from wirebroker_tools.traces.doublings import remarks_on

SEQUENCES = 2**31
WIDTH = 48
"""The number of columns of the picture."""
FOLDED = 4
"""At least this many consecutive batches with the same result are drawn as one line."""
LINES = 60
"""A picture has at most this many lines. If there would be more lines, consecutive lines are joined."""
VERDICTS = ("accepted", "duplicate", "rejected")
FAULT = "fault"
"""This word replaces the verdict if a fault stopped the batch before the validator judged it."""
MARKS = {"accepted": "█", "duplicate": "▒", "rejected": "×", FAULT: "!"}
MISSING = "·"

Span = tuple[int, int]
"""A range of sequences or offsets: the first and the last. Sequences that have wrapped to 0 are counted as 2³¹ and more."""


class Sending(Struct, frozen=True):
    """A batch that was sent, with its verdict or the faults that stopped it."""

    row: ProduceRow | FaultRow
    sent: ProduceRow | SentBatch
    verdict: str
    base_offset: int
    problem: str
    """the error, or the faults"""
    number: int = 0
    """the number of the row"""


class Batch(Struct, frozen=True):
    """A batch in the picture."""

    sending: Sending
    span: Span
    gap: Span | None
    """the sequences that are missing before the batch"""
    remark: str

    def is_followed_by(self, other: Batch) -> bool:
        """Tells whether this batch and `other` have the same result, and `other` directly follows or repeats this batch."""
        mine, its = ((each.verdict, each.problem) for each in (self.sending, other.sending))
        if self.remark or other.remark or mine != its:
            return False
        if (self.gap is None) != (other.gap is None) or (self.gap and other.gap and self.gap[0] != other.gap[0]):
            return False
        has_sequences = self.sending.sent.producer_id >= 0
        goes_on = other.span[0] == self.span[1] + 1 if has_sequences else other.span[0] > self.span[1]
        return goes_on or self.span == other.span


def timelines(rows: Iterable[Row], colour: bool = False, chosen: Callable[[Row], bool] = lambda _: True) -> Iterator[str]:
    """Yields the lines of a picture for each producer epoch on each partition. The pictures are in the order of their first
    batches.

    Only the chosen rows are drawn as lines. The counts in the summary, such as the number of rejected batches, include all
    rows.
    """
    rows = list(rows)
    found: dict[tuple[object, ...], list[Sending]] = {}
    for sending in sendings_in(list(enumerate(rows, 1))):
        sent = sending.sent
        key = (sent.producer_id, sent.producer_epoch) if sent.producer_id >= 0 else (sending.row.client_id,)
        found.setdefault((sent.topic, sent.partition, *key), []).append(sending)
    remarks = remarks_on(rows)
    first = True
    for sendings in found.values():
        shown = [chosen(each.row) for each in sendings]
        if any(shown):
            yield from [] if first else [""]
            yield from _timeline(sendings, shown, remarks, colour, _next_epoch(sendings, found.values()))
            first = False


def sendings_in(rows: Sequence[tuple[int, Row]]) -> list[Sending]:
    """Returns the batches in the numbered rows that have a verdict, and each other batch on which a fault fired."""
    found: list[Sending] = []
    judged = {_place(row, row) for _, row in rows if isinstance(row, ProduceRow)}
    stopped: dict[tuple[object, ...], int] = {}
    for number, row in rows:
        if isinstance(row, ProduceRow):
            found.append(Sending(row, row, row.verdict, row.base_offset, f"{row.code} {row.error}", number))
        elif isinstance(row, FaultRow) and row.batch is not None and (place := _place(row, row.batch)) not in judged:
            if place in stopped:
                earlier = found[stopped[place]]
                found[stopped[place]] = replace(earlier, problem=f"{earlier.problem}, {row.rule}")
            else:
                stopped[place] = len(found)
                found.append(Sending(row, row.batch, FAULT, -1, row.rule, number))
    return found


def _place(row: ProduceRow | FaultRow, sent: ProduceRow | SentBatch) -> tuple[object, ...]:
    return row.node, row.connection, row.correlation_id, sent.topic, sent.partition


def _next_epoch(sendings: list[Sending], all_sendings: Iterable[list[Sending]]) -> list[Sending]:
    """Returns the batches that the producer of `sendings` sent to the same partition in its next epoch."""
    sent = sendings[0].sent
    if sent.producer_id < 0:
        return []
    following = [
        others
        for others in all_sendings
        if (others[0].sent.topic, others[0].sent.partition, others[0].sent.producer_id)
        == (sent.topic, sent.partition, sent.producer_id)
        and others[0].sent.producer_epoch > sent.producer_epoch
    ]
    return min(following, key=lambda others: others[0].sent.producer_epoch, default=[])


def _timeline(
    sendings: list[Sending], shown: list[bool], remarks: dict[int, str], colour: bool, following: list[Sending]
) -> Iterator[str]:
    idempotent = sendings[0].sent.producer_id >= 0
    spans = _sequences(sendings) if idempotent else _offsets(sendings)
    batches = list(_batches(sendings, spans, remarks))
    chosen = [batch for batch, wanted in zip(batches, shown, strict=True) if wanted]
    whole, part = _extent(batches), _extent(chosen)
    yield printable(_heading(sendings[0], whole)) + (f", shown {_shown(part, idempotent)}" if part != whole else "")
    for group in _lines(chosen):
        yield _line(group, part, colour)
    some = f"; {len(chosen):,} of {len(batches):,} batches shown" if len(chosen) < len(batches) else ""
    yield f"  {_summary(batches, whole if idempotent else None, following)}{some}"


def _extent(batches: list[Batch]) -> Span:
    """Returns the range from the first to the last sequence or offset of the batches. It includes the gaps before them."""
    spans = [span for batch in batches for span in (batch.span, batch.gap) if span is not None]
    return min(first for first, _ in spans), max(last for _, last in spans)


def _heading(sending: Sending, whole: Span) -> str:
    sent, place = sending.sent, f"{sending.sent.topic}-{sending.sent.partition}"
    if sent.producer_id < 0:
        return f"client {sending.row.client_id!r} without idempotence on {place}: offsets {_shown(whole, wraps=False)}"
    return f"producer {sent.producer_id} epoch {sent.producer_epoch} on {place}: sequences {_shown(whole)}"


def _sequences(sendings: list[Sending]) -> list[Span]:
    """Returns the range of sequences of each batch. Sequences that have wrapped from 2³¹−1 to 0 are counted as 2³¹ and more."""
    firsts = [each.sent.first_sequence for each in sendings]
    wrapped = max(firsts) - min(firsts) > SEQUENCES // 2
    spans = []
    for each in sendings:
        first = each.sent.first_sequence + (SEQUENCES if wrapped and each.sent.first_sequence < SEQUENCES // 2 else 0)
        spans.append((first, first + (each.sent.last_sequence - each.sent.first_sequence) % SEQUENCES))
    return spans


def _offsets(sendings: list[Sending]) -> list[Span]:
    """Returns the range of offsets of each batch. A batch that got no offset is drawn at the offset of the next stored
    batch.
    """
    end = next((each.base_offset for each in sendings if each.base_offset >= 0), 0)
    spans = []
    for each in sendings:
        first = each.base_offset if each.base_offset >= 0 else end
        spans.append((first, first + max(each.sent.records, 1) - 1))
        end = spans[-1][1] + 1 if each.base_offset >= 0 else end
    return spans


def _batches(sendings: list[Sending], spans: list[Span], remarks: dict[int, str]) -> Iterator[Batch]:
    expected: int | None = None
    for each, span in zip(sendings, spans, strict=True):
        is_gap = each.verdict == "rejected" and each.sent.producer_id >= 0 and expected is not None and expected < span[0]
        gap = (expected, span[0] - 1) if is_gap and expected is not None else None
        yield Batch(each, span, gap, remarks.get(id(each.row), ""))
        if each.verdict == "accepted":
            expected = span[1] + 1


def _lines(batches: list[Batch]) -> list[list[Batch]]:
    """Divides the batches into lines. A long run of batches with the same result shares a line. If there are still too many
    lines, consecutive lines are joined.
    """
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
    verdicts = Counter(batch.sending.verdict for batch in batches)
    word = batches[0].sending.verdict if len(verdicts) == 1 else "mixed"
    picture, padded = _picture(batches, whole), f"{word:<9}"
    if colour and word != "mixed":
        picture, padded = (f"{COLOURS[word]}{text}{PLAIN}" for text in (picture, padded))
    span = batches[0].span[0], max(batch.span[1] for batch in batches)
    first = batches[0].sending
    when, shown = time_of_day(first.row.time), _shown(span, wraps=first.sent.producer_id >= 0)
    outcome = _outcome(batches) if word != "mixed" else ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
    remarks = [printable(batch.remark) for batch in batches if batch.remark]
    more = f" (and {len(remarks) - 1:,} more)" if remarks[1:] else ""
    return f"  {when}  {shown:<15} |{picture}|  {padded}  {outcome}" + (f"  ◄ {remarks[0]}{more}" if remarks else "")


def _picture(batches: list[Batch], whole: Span) -> str:
    columns = [" "] * WIDTH
    low, width = whole[0], whole[1] - whole[0] + 1
    parts = [(batch.gap, MISSING) for batch in batches] + [
        (batch.span, mark) for verdict, mark in MARKS.items() for batch in batches if batch.sending.verdict == verdict
    ]
    for part, mark in parts:
        if part is not None:
            start = (part[0] - low) * WIDTH // width
            stop = ((part[1] + 1 - low) * WIDTH - 1) // width + 1
            columns[start:stop] = mark * (stop - start)
    return "".join(columns)


def _outcome(batches: list[Batch]) -> str:
    """Returns the result of a line's batches as text. The batches have the same verdict."""
    first, last = batches[0].sending, batches[-1].sending
    count = "" if len(batches) == 1 else f"{len(batches):,} {'batches' if _goes_on(batches) else 'times'}, "
    offsets = f"offset {first.base_offset}"
    if len(batches) > 1 and _goes_on(batches):
        offsets = f"offsets {first.base_offset}–{last.base_offset + max(last.sent.records, 1) - 1}"
    if first.verdict == "accepted":
        return count + offsets
    if first.verdict == "duplicate":
        return count + (f"of {offsets}" if first.base_offset >= 0 else "not stored again")
    problems = printable(", ".join(dict.fromkeys(batch.sending.problem for batch in batches)))
    if first.verdict == FAULT:
        return f"{count}stopped by {problems}"
    gap = batches[0].gap
    return count + problems + (f", missing {_shown(gap)}" if gap is not None else "")


def _summary(batches: list[Batch], whole: Span | None, following: list[Sending]) -> str:
    """Returns the summary: the number of batches by verdict, and the missing sequences. `whole` is the range of the producer's
    sequences, or None if the producer is not idempotent. `following` are the batches of the producer's next epoch.
    """
    found = Counter(batch.sending.verdict for batch in batches)
    counts = [f"{found[verdict]:,} {verdict}" for verdict in VERDICTS]
    counts += [f"{found[FAULT]:,} stopped by a fault"] if found[FAULT] else []
    if whole is None:
        return ", ".join(counts) + "; without sequences, so a retry is not recognised"
    lacking = list(_lacking(sorted(batch.span for batch in batches if _is_stored(batch.sending)), whole))
    if not lacking:
        return ", ".join(counts) + "; nothing is missing"
    return f"{', '.join(counts)}; never stored: {', '.join(map(_shown, lacking))}{_sent_again(lacking, following)}"


def _sent_again(lacking: list[Span], following: list[Sending]) -> str:
    """A client sends missing records again in its next epoch, from sequence 0 on. Returns a text about the batches of the next
    epoch that may contain the missing records.
    """
    stored = [each for each in following if _is_stored(each)]
    if not stored:
        return ""
    epoch, count = stored[0].sent.producer_epoch, sum(last - first + 1 for first, last in lacking)
    found = sum(max(each.sent.records, 1) for each in stored)
    if found < count:
        return f" in this epoch; epoch {epoch} goes on with {found:,} record{'s' * (found != 1)}"
    again = (stored[0].sent.first_sequence, stored[0].sent.first_sequence + count - 1)
    return f" in this epoch; they are probably {_shown(again)} of epoch {epoch}"


def _is_stored(sending: Sending) -> bool:
    """Tells whether the log has the batch: either the batch was stored now, or it is a duplicate of a stored batch."""
    return sending.verdict == "accepted" or (sending.verdict == "duplicate" and sending.base_offset >= 0)


def _lacking(stored: list[Span], whole: Span) -> Iterator[Span]:
    """Yields the parts of the range `whole` that no stored batch covers."""
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
