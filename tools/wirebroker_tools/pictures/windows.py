"""Draws a producer's window. Each line stands for the arrival of a batch, and shows the latest batches that the
broker remembers. Older batches move to the left until they are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import ProduceRow, Row, TransactionRow
from wirebroker_tools.pictures.exchanges import span_of
from wirebroker_tools.pictures.marks import (
    LETTER,
    LINE,
    SERIES,
    Mark,
    Picture,
    cross,
    fitted,
    group,
    legend,
    line,
    path,
    rect,
    text,
)
from wirebroker_tools.traces.timeline import FAULT, Sending, sendings_in

Numbered = tuple[int, Row]
Span = tuple[int, int]
RUN = 8
"""If at least this many accepted batches follow each other, the batches in the middle share a line."""
TOP = 40
MEANINGS = (
    "green: stored",
    "amber: a retry that the window knew",
    "red: refused",
    "purple: a fault kept it from arriving",
    "grey: forgotten, a retry of it is refused",
)


class Arrival(Struct, frozen=True):
    """A batch that arrives, the window after its arrival, and the batch that the arrival pushed out of the window."""

    sending: Sending
    window: tuple[tuple[int, Span], ...]
    """the batches in the window, oldest first, each with its ordinal number"""
    forgotten: Span | None
    folded: int = 0
    """the number of accepted batches that share this line, or 0"""


def windows(rows: Sequence[Numbered], first: int, width: int, lines: int, of: str) -> Picture:
    """Draws the window of one producer on one partition. Rows before the row `first` are not drawn, but their batches fill the
    window.
    """
    counts: dict[tuple[str, int, int], int] = {}
    sendings = [each for each in sendings_in(rows) if each.sent.producer_id >= 0]
    for each in sendings:
        counts[_key(each)] = counts.get(_key(each), 0) + (1 if each.verdict == "accepted" else 1000)
    found = {f"producer {key[2]} on {key[0]}-{key[1]}": key for key in sorted(counts, key=lambda key: (-counts[key], key))}
    ids = {row.producer_id for _, row in rows if isinstance(row, TransactionRow) and row.transactional_id == of}
    chosen = of if of in found else next((name for name, key in found.items() if key[2] in ids), next(iter(found), ""))
    numbers = next((number for number, _ in rows if number >= first), 0), rows[-1][0] if rows else 0
    if not chosen:
        marks = [text(8, 24, "no batch of an idempotent producer was traced here", "say dim")]
        return Picture("windows", "windows of producers", width, 40, marks, *numbers)
    arrivals = _shortened(list(_arrivals([each for each in sendings if _key(each) == found[chosen]], first)), lines)
    drawn, height = _drawn(arrivals, width, chosen)
    choice = of if ids else chosen  # the user may also choose by transactional id
    return Picture("windows", f"the window of {chosen}", width, height, drawn, *numbers, list(found)[:200], choice)


def _key(sending: Sending) -> tuple[str, int, int]:
    sent = sending.sent
    return sent.topic, sent.partition, sent.producer_id


def _arrivals(sendings: Sequence[Sending], first: int) -> Iterator[Arrival]:
    window: deque[tuple[int, Span]] = deque()
    epoch, count = -1, 0
    for each in sendings:
        forgotten = None
        if isinstance(each.row, ProduceRow) and each.verdict == "accepted":
            if each.sent.producer_epoch != epoch:
                window.clear()
                epoch = each.sent.producer_epoch
            count += 1
            window.append((count, _span(each)))
            forgotten = window.popleft()[1] if len(window) > each.row.window else None
        if each.number >= first:
            yield Arrival(each, tuple(window), forgotten)


def _span(sending: Sending) -> Span:
    return sending.sent.first_sequence, sending.sent.last_sequence


def _shortened(arrivals: list[Arrival], lines: int) -> list[Arrival]:
    """Fold long runs of accepted batches. If there are still too many lines, keep only the latest lines."""
    found: list[Arrival] = []
    run: list[Arrival] = []
    for each in [*arrivals, None]:
        if each is not None and each.sending.verdict == "accepted":
            run.append(each)
            continue
        if len(run) >= RUN:
            middle = run[len(run) - 3]
            found += [
                run[0],
                run[1],
                replace(middle, folded=len(run) - 4),
                *run[-2:],
            ]
        else:
            found += run
        run = []
        found += [each] if each is not None else []
    return found[-lines:]


def _drawn(arrivals: Sequence[Arrival], width: int, name: str) -> tuple[list[Mark], int]:
    gutter = 92 if width >= 700 else 50
    asked = max(min(width * 0.3, 300), 110)
    left = gutter + asked + 20
    slots = max((each.sending.row.window for each in arrivals if isinstance(each.sending.row, ProduceRow)), default=1)
    slot = (width - left - 10) / (slots + 1)
    marks = [
        text(gutter, 30, "what arrives", "say dim"),
        text(left + slot - 9, 30, "forgotten", "end say dim"),
        text(left + slot * (slots + 1) - 4, 30, "newest", "end say dim"),
        *([text(left + slot + 2, 30, "← older", "say dim")] if slot * slots > 16 * LETTER else []),
    ]
    marks += [
        text(gutter, 14, fitted(name, width - gutter - 10), "head"),
        line(left + slot - 5, 20, left + slot - 5, TOP + len(arrivals) * LINE, "rule dashed"),
    ]
    for at, each in enumerate(arrivals):
        marks.append(_line(each, TOP + at * LINE + LINE / 2, gutter, left, slot, slots))
    meanings, bottom = legend(MEANINGS, 8, TOP + len(arrivals) * LINE + 20, width - 8)
    return [*marks, *meanings], int(bottom + 6)


def _line(each: Arrival, y: float, gutter: float, left: float, slot: float, slots: int) -> Mark:
    sending, verdict = each.sending, each.sending.verdict
    when = time_of_day(sending.row.time)
    marks = [
        rect(2, y - LINE / 2, left + slot * (slots + 1) - 4, LINE, "hit"),
        text(gutter - 10, y + 4, when if gutter > 60 else when[6:], "end say dim"),
    ]
    words = (
        f"⋮ {each.folded:,} more{', in order' * (gutter > 60)}"
        if each.folded
        else f"seq {span_of(*_span(sending))} {_why(each)}"
    )
    kind = "dim" if each.folded else verdict
    marks.append(text(gutter, y + 4, fitted(words, left - gutter - 16), f"say {kind}"))
    if verdict in ("rejected", FAULT):
        marks += cross(left - 12, y, 4, f"stroke thick {verdict}")
    elif not each.folded:
        marks.append(path([(left - 14, y - 4), (left - 7, y), (left - 14, y + 4)], f"fill {verdict}", close=True))
    if each.forgotten is not None and not each.folded:
        marks += _slot(left, y, slot, each.forgotten, "edge", "dim")
    gap = slots - len(each.window)
    for at, (count, span) in enumerate(each.window):
        is_it = span == _span(sending) and verdict in ("accepted", "duplicate")
        marks += _slot(
            left + slot * (at + gap + 1),
            y,
            slot,
            span,
            f"tint {f'boxed thick {verdict}' if is_it else f'c{count % SERIES}'}",
            "plain",
        )
    told = sending.row.explain if isinstance(sending.row, ProduceRow) else sending.problem
    return group([*marks, Mark("title", {}, f"{when}  {told}")], row=sending.number)


def _why(each: Arrival) -> str:
    sending, offset = each.sending, each.sending.base_offset
    if sending.verdict == "accepted":
        return f"→ offset {offset}" + (f", epoch {sending.sent.producer_epoch}" if len(each.window) == 1 else "")
    if sending.verdict == "duplicate":
        return f"again: duplicate of offset {offset}" if offset >= 0 else "again: duplicate"
    if sending.verdict == FAULT:
        return f"⚡ {sending.problem}"
    return f"refused: {sending.problem.partition(' ')[2]}"


def _slot(x: float, y: float, wide: float, span: Span, kind: str, tone: str) -> list[Mark]:
    words = fitted(span_of(*span), wide - 8)
    return (
        [rect(x + 2, y - 8, wide - 4, 16, kind, "", 3), text(x + wide / 2, y + 4, words, f"middle say {tone}")]
        if wide > LETTER
        else []
    )
