"""Draws a partition's log as a ribbon over its offsets. Below the ribbon, time goes downward, and offsets increase to the
right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct

from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import FaultRow, FetchRow, LeaderRow, ProduceRow, ReplyRow, RetentionRow, Row, TransactionRow
from wirebroker.trace.selection import exchange_of
from wirebroker_tools.pictures.marks import (
    LETTER,
    Mark,
    Picture,
    coloured,
    cross,
    dot,
    fitted,
    group,
    label,
    legend,
    line,
    path,
    rect,
    text,
)
from wirebroker_tools.pictures.ribbon import THICK, Piece, Ribbon, sequences

Numbered = tuple[int, Row]
LEFT = 92
HEADING = 36.0
"""The text below the heading has its base line at this y coordinate."""
MOST_LINES = 12
"""At most this many readers and groups are drawn. If there are more, the readers and groups whose offsets changed last are
drawn."""
TALLEST = 620
NAMELESS = "(no client id)"
MOST_DOTS = 200
"""If a reader has at most this many fetches, each fetch has a dot."""
MOST_BATCHES = 1000
"""If there are at least this many batches, neighbouring batches share a mark."""
MEANINGS = {
    "accepted": "filled: stored", "duplicate": "empty: a retry, at its first copy", "rejected": "cross: refused",
}  # fmt: skip
FENCED = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE")
"""The errors that batches of a transaction get after the coordinator itself has aborted it."""
ENDS = {"CompleteCommit": ("committed", "good"), "CompleteAbort": ("aborted", "bad")}


class Batch(Struct):
    """A batch in a Produce request, with its verdict."""

    number: int
    time: int
    row: ProduceRow
    faults: list[str] = []
    at: int = 0
    """the log's end offset when the batch arrived"""
    more: int = 0
    """the number of later batches that share this batch's mark"""
    until: int = -1
    """the last offset of these later batches"""

    @property
    def first(self) -> int:
        return self.row.base_offset

    @property
    def last(self) -> int:
        return max(self.row.base_offset + max(self.row.records, 1) - 1, self.until)

    @property
    def producer(self) -> str:
        """Returns the name of the batch's producer in words."""
        name = self.row.client_id or NAMELESS
        return f"{name}, producer {self.row.producer_id}" if self.row.producer_id >= 0 else f"{name}, no producer id"


class Transaction(Struct):
    name: str
    first: int
    began: int
    last: int
    epoch: int = -1
    ended: int = -1
    state: str = "open"
    kind: str = "note"

    def abort(self, time: int) -> None:
        """Remember that the coordinator itself has aborted the transaction. `time` is the time at which the abort became
        visible."""
        self.ended, self.state, self.kind = time, "aborted", "bad"


class Story(Struct):
    """The events of one partition."""

    batches: list[Batch] = []
    transactions: list[Transaction] = []
    markers: list[tuple[int, str]] = []
    """the offset of each transaction marker, and the state of its transaction"""
    moves: dict[tuple[str, str], list[tuple[int, int]]] = {}
    """the points (time, offset) of each line that is drawn over the log; a line has a kind and an owner"""
    notes: list[tuple[int, str, str, int]] = []
    """for each note: the time, the words, the CSS class, and the log's end offset at that time"""
    end: int = 0
    left: dict[str, int] = {}
    """for each reader that gave up the partition and has not read from it since: the time at which it gave up the partition"""
    got: dict[str, int] = {}
    """for each reader: the latest offset from which it got records"""
    returns: set[tuple[str, int]] = set()
    """for each time that a reader returned to an offset that it had read before: the reader and the time"""
    unmarked: list[Transaction] = []
    """transactions that a coordinator has aborted, and whose markers have no known offsets yet"""

    def moved(self, kind: str, name: str, time: int, offset: int, again: bool = False) -> None:
        """Add a point to a line, unless the line's last point has the same offset. With `again`, add the point even in this
        case."""
        moves = self.moves.setdefault((kind, name), [])
        if offset >= 0 and (not moves or moves[-1][1] != offset or again):
            moves.append((time, offset))

    def read(self, name: str, time: int, offset: int, has_records: bool) -> None:
        """Remember that a reader has read from an offset. The read is a return if the reader goes back to an earlier offset, or
        gets the records at the same offset again.
        """
        moves = self.moves.get(("reader", name))
        again = bool(moves) and (offset < moves[-1][1] or (has_records and self.got.get(name) == offset))  # type: ignore[index]
        if has_records:
            self.got[name] = offset
        if again:
            self.returns.add((name, time))
        self.left.pop(name, None)
        self.moved("reader", name, time, offset, again)


def partitions_in(rows: Sequence[Numbered]) -> dict[str, int]:
    """Returns the partitions that can be drawn, with their numbers of batches. The partition with the most rows comes first."""
    batches = Counter((row.topic, row.partition) for _, row in rows if isinstance(row, ProduceRow))
    fetches = Counter((row.topic, row.partition) for _, row in rows if isinstance(row, FetchRow))
    found = sorted({*batches, *fetches}, key=lambda key: (-3 * batches[key] - fetches[key], key))
    return {f"{topic}-{index}": batches[topic, index] for topic, index in found}


def log(rows: Sequence[Numbered], first: int, width: int, of: str) -> Picture:
    """Draws a partition. Rows before `first` are not drawn. Such rows only determine the state at the beginning of the
    picture."""
    counts = partitions_in(rows)
    choices, chosen = list(counts), of if of in counts else next(iter(counts), "")
    story = _read(rows, first, chosen, counts.get(chosen, 0) // MOST_BATCHES)
    numbers = next((number for number, _ in rows if number >= first), 0), rows[-1][0] if rows else 0
    if not story.batches and not any(story.moves.values()):
        marks: Sequence[Mark] = [text(8, 24, "no batch and no Fetch was traced here", "say dim")]
        return Picture("log", "a partition's log", width, 40, marks, *numbers, choices[:200], chosen)
    others = f"; of {len(choices):,} partitions it has the most rows" if not of and len(choices) > 1 else ""
    drawn, height = _Drawing(story, width).picture(f"The log of {chosen}{others}")
    return Picture("log", f"the log of {chosen}", width, height, drawn, *numbers, choices[:200], chosen)


def _read(rows: Sequence[Numbered], first: int, name: str, share: int) -> Story:
    """Collects the events of a partition. A batch may share its mark with the batches that were stored directly after it, but
    with at most `share` of them.
    """
    topic, _, index = name.rpartition("-")
    partition = int(index) if index.isdigit() else -1
    story, open_, struck, transactional = Story(), {}, {}, {}  # type: ignore[var-annotated]
    for number, row in rows:
        if isinstance(row, ProduceRow):
            if row.partition == partition and row.topic == topic and not _joins(story, row, share):
                faults = struck.setdefault(exchange_of(row), [])
                _batch(story, open_, transactional, Batch(number, row.time, row, faults, story.end))
        elif isinstance(row, FetchRow):
            if row.partition == partition and row.topic == topic and not row.code:
                _fetch(story, row)
        elif isinstance(row, FaultRow):
            if (row.batch and (row.batch.topic, row.batch.partition) == (topic, partition)) or name in row.partitions:
                struck.setdefault(exchange_of(row), []).append(row.rule)
                story.notes.append((row.time, f"⚡ {row.kind}", "fault", story.end))
        elif isinstance(row, TransactionRow):
            transactional[row.producer_id] = row.transactional_id
            _transaction(story, open_, row)
        elif isinstance(row, RetentionRow | LeaderRow):
            if row.partition == partition and row.topic == topic:
                _changed(story, row)
        elif isinstance(row, ReplyRow):
            _replied(story, row, name)
    began = next((row.time for number, row in rows if number >= first), 0)
    return _since(story, first, began)


def _joins(story: Story, row: ProduceRow, share: int) -> bool:
    """Let a stored batch share the mark of the batch before it, unless `share` other batches already share this mark. Returns
    whether the batch shares the mark."""
    before = story.batches[-1] if story.batches else None
    if before is None or before.more >= share or row.verdict != "accepted" or row.transactional or before.faults:
        return False
    other = before.row
    if (
        other.verdict != "accepted"
        or other.transactional
        or other.producer_id != row.producer_id
        or row.base_offset != story.end
    ):
        return False
    before.more += 1
    before.until = row.base_offset + max(row.records, 1) - 1
    story.end = before.until + 1
    story.moves["log end", ""][-1] = row.time, story.end
    return True


def _batch(story: Story, open_: dict[int, Transaction], names: dict[int, str], batch: Batch) -> None:
    story.batches.append(batch)
    row = batch.row
    before = open_.get(row.producer_id)
    if before is not None and row.producer_epoch >= before.epoch:
        fenced = row.transactional and row.verdict == "rejected" and row.error in FENCED
        if fenced or row.producer_epoch > before.epoch:
            _aborted(story, open_, row.producer_id, batch.time)
    if row.verdict != "accepted":
        return
    _place_markers(story, batch.first)
    story.end = max(story.end, batch.last + 1)
    story.moved("log end", "", batch.time, story.end)
    if row.transactional:
        if (found := open_.get(row.producer_id)) is None:
            name = names.get(row.producer_id, f"producer {row.producer_id}")
            found = open_[row.producer_id] = Transaction(name, batch.first, batch.time, batch.last, row.producer_epoch)
            story.transactions.append(found)
        found.last = max(found.last, batch.last)


def _aborted(story: Story, open_: dict[int, Transaction], producer_id: int, time: int) -> None:
    """A producer's open transaction has ended although no client ended it. Remember that the coordinator itself has aborted the
    transaction.
    """
    found = open_.pop(producer_id)
    found.abort(time)
    story.unmarked.append(found)


def _place_markers(story: Story, offset: int) -> None:
    """If the markers of aborted transactions would exactly fill the gap before the next batch, put the markers there."""
    if story.unmarked and offset - story.end == len(story.unmarked):
        for each in story.unmarked:
            each.last = max(each.last, story.end)
            story.markers.append((story.end, "aborted"))
            story.end += 1
    story.unmarked.clear()


def _transaction(story: Story, open_: dict[int, Transaction], row: TransactionRow) -> None:
    if row.state == "Empty" and row.producer_id in open_:
        _aborted(story, open_, row.producer_id, row.time)
    elif row.state in ENDS and (found := open_.pop(row.producer_id, None)) is not None:
        found.state, found.kind = ENDS[row.state]
        found.ended, found.last = row.time, story.end
        story.markers.append((story.end, found.state))
        story.end += 1
        story.moved("log end", "", row.time, story.end)


def _fetch(story: Story, row: FetchRow) -> None:
    story.read(row.client_id or NAMELESS, row.time, row.offset, row.bytes > 0)
    story.moved("high watermark", "", row.time, row.high_watermark)
    story.moved("last stable offset", "", row.time, row.last_stable_offset)
    story.moved("log start", "", row.time, row.log_start_offset)


def _changed(story: Story, row: RetentionRow | LeaderRow) -> None:
    if isinstance(row, RetentionRow):
        story.moved("log start", "", row.time, row.log_start_offset)
        story.notes.append((row.time, f"retention: begins at {row.log_start_offset}", "note", story.end))
    elif row.leader_epoch > 0:
        story.notes.append((row.time, row.parts()[3], "note", story.end))


def _replied(story: Story, row: ReplyRow, name: str) -> None:
    if row.api == "OffsetCommit":
        _committed(story, row, name)
    elif row.api == "LeaveGroup" or ("assigned" in row.details and name not in str(row.details["assigned"]).split(", ")):
        story.left[row.client_id or NAMELESS] = row.time


def _committed(story: Story, row: ReplyRow, name: str) -> None:
    if row.errors:
        return
    group_id = next((each.removeprefix("group ") for each in row.about if each.startswith("group ")), "")
    for each in str(row.details.get("offsets", "")).split(", "):
        place, _, offset = each.rpartition(":")
        if place == name and offset.isdigit():
            story.moved("group", group_id or "(not in the row)", row.time, int(offset))


def _since(story: Story, first: int, began: int) -> Story:
    """Removes the events before the row `first`, except the last position of each reader and each group. Changes the story, and
    returns it."""
    story.batches = [batch for batch in story.batches if batch.number >= first]
    story.transactions = [each for each in story.transactions if each.ended < 0 or each.ended >= began]
    story.notes = [each for each in story.notes if each[0] >= began]
    for key, moves in story.moves.items():
        earlier = [(began, offset) for time, offset in moves if time < began][-1:]
        story.moves[key] = [*earlier, *((time, offset) for time, offset in moves if time >= began)]
    return story


class _Drawing(Ribbon):
    def __init__(self, story: Story, width: int) -> None:
        self.story, self.width = story, width
        self.stored = [batch for batch in story.batches if batch.row.verdict == "accepted"]
        offsets = [each for batch in story.batches if batch.first >= 0 for each in (batch.first, batch.last + 1)]
        standing = [key for key, moves in story.moves.items() if key[0] == "log start" and len(moves) < 2]
        offsets += [offset for key, moves in story.moves.items() if key not in standing or not offsets for _, offset in moves]
        super().__init__(min(offsets, default=0), max([*offsets, 1]), LEFT if width >= 560 else 52, width - 14)
        times = {batch.time for batch in story.batches} | {each[0] for each in story.notes}
        times |= {each[0] for moves in story.moves.values() for each in moves}
        times |= {each.ended for each in story.transactions if each.ended >= 0}
        times |= {time for name, time in story.left.items() if story.moves.get(("reader", name))}
        self.times = sorted(times) or [0]
        self.names = coloured(sorted({batch.producer for batch in story.batches}))

    def picture(self, heading: str) -> tuple[list[Mark], int]:
        """Returns the marks and the height."""
        producers, top = self.producers(self.names, HEADING)
        began, ended = (datetime.fromtimestamp(time // 1000).isoformat(" ") for time in (self.times[0], self.times[-1]))
        dim = f"{began} to {ended[11:]}, times not to scale"
        wide = len(heading) * (LETTER + 0.6) + 14
        fits = wide + len(dim) * LETTER < self.width - 14
        title = [text(8, 16, fitted(heading, self.width - 14), "head"), text(wide, 16, dim * fits, "say dim")]
        ribbon = top + 16
        self.top = ribbon + THICK + 12 + self._brackets_height()
        self._set_places()
        marks = [*title, *producers, *self.scale(ribbon), *self._ribbon(ribbon), *self._brackets(ribbon + THICK + 4)]
        marks += [*self._spans(), *self._clock(), *self._lines(), *self._arrivals(), *self._notes()]
        keys, height = self._keys(self.bottom + 22)
        verdicts = {batch.row.verdict for batch in self.story.batches}
        said = [MEANINGS[verdict] for verdict in MEANINGS if verdict in verdicts]
        meanings, bottom = legend(said, self.left, height, self.right) if verdicts - {"accepted"} else ([], height)
        return [*marks, *keys, *meanings], int(bottom)

    def _set_places(self) -> None:
        steps = [1 + min(math.log2(1 + (later - earlier) / 10), 6) for earlier, later in pairwise(self.times)]
        total = sum(steps) or 1
        tall = min(max(9 * total, 120), TALLEST)
        self.bottom, at = self.top + tall, 0.0
        self.place = {self.times[0]: self.top + 6}
        for time, step in zip(self.times[1:], steps, strict=True):
            at += step
            self.place[time] = self.top + 6 + at / total * (tall - 12)

    def _ribbon(self, y: float) -> Iterator[Mark]:
        pieces = [
            Piece(
                batch.first, batch.last, f"half {self.names[batch.producer]}",
                "" if batch.more else sequences(batch.row.first_sequence, batch.row.last_sequence), _title(batch), batch.number,
            )
            for batch in self.stored
        ]  # fmt: skip
        for offset, state in self.story.markers:
            if self.low <= offset < self.high:
                kind = "good" if state == "committed" else "bad"
                pieces.append(Piece(offset, offset, f"tint boxed {kind}", state, f"offset {offset}: {state}", 0, kind))
        yield from self.draw(y, sorted(pieces))
        starts = self.story.moves.get(("log start", ""), [])
        if starts and (start := starts[-1][1]) > self.low:
            yield rect(self.left, y, self.x(start) - self.left, THICK, "soft", f"deleted before {start}")

    def _brackets_height(self) -> float:
        return 18.0 if self.story.transactions else 0.0

    def _brackets(self, y: float) -> Iterator[Mark]:
        """Draw the transactions as brackets under the ribbon."""
        for each in self.story.transactions[-200:]:
            x, end = self.x(each.first), self.x(each.last + 1)
            yield path(
                [(x, y), (x, y + 5), (end, y + 5), (end, y)], f"stroke thick {each.kind}", title=f"{each.name}: {each.state}"
            )
            words = fitted(f"{each.name}: {each.state}", max(end - x, 0))
            if len(words) > 5:
                yield text((x + end) / 2, y + 16, words, f"middle say {each.kind}")

    def _spans(self) -> Iterator[Mark]:
        """Draw the transactions as rectangles: the width of a rectangle shows the offsets, and its height shows the time."""
        for each in self.story.transactions[-200:]:
            y, end = self._y(each.began), self._y(each.ended) if each.ended >= 0 else self.bottom
            x, wide = self.x(each.first), self.x(each.last + 1) - self.x(each.first)
            yield rect(
                x, y - 4, wide, max(end - y, 6) + 4, f"tint boxed {each.kind}", f"transaction {each.name}: {each.state}", 3
            )

    def _y(self, time: int) -> float:
        return self.place.get(time, self.top + 6 if time < self.times[0] else self.bottom)

    def _clock(self) -> Iterator[Mark]:
        yield rect(self.left, self.top, self.right - self.left, self.bottom - self.top, "rule")
        drawn = -99.0
        for time in self.times:
            if self._y(time) - drawn >= 16:
                drawn = self._y(time)
                clock = time_of_day(time)
                yield text(self.left - 8, drawn + 4, clock if self.left > 60 else clock[6:], "end say dim")

    def _paths(self) -> list[tuple[str, str, str, str]]:
        """Returns the lines to draw: for each line, the kind, the owner, the CSS class and the words."""
        moves = self.story.moves
        found = (
            [("log end", "", "dim", "log end")]
            if ("high watermark", "") not in moves
            else [("high watermark", "", "dim", "high watermark")]
        )
        for kind, colour in (("last stable offset", "warn"), ("log start", "bad")):
            if (kind, "") in moves and (kind != "log start" or len(moves[kind, ""]) > 1):
                found.append((kind, "", colour, kind))
        names = [key for key in moves if key[0] in ("reader", "group") and moves[key]]
        latest = sorted(names, key=lambda key: moves[key][-1][0])[-MOST_LINES:]
        colours = coloured([*self.names, *sorted({name for _, name in latest})])  # producers get other colours
        for kind, name in sorted(latest):
            words = f"{name} reads" if kind == "reader" else f"group {name} committed"
            found.append((kind, name, colours[name], words))
        return [each for each in found if moves.get(each[:2])]

    def _lines(self) -> Iterator[Mark]:
        for kind, name, colour, words in self._paths():
            moves = self.story.moves[kind, name]
            points: list[tuple[float, float]] = []
            for time, offset in moves:
                y = self._y(time)
                if points:
                    points.append((points[-1][0], y))
                points.append((self.x(offset), y))
            ends = self.story.left.get(name) if kind == "reader" else None
            points.append((points[-1][0], self.bottom if ends is None else self._y(ends)))
            if ends is not None:
                yield from cross(*points[-1], 4, f"stroke thick {colour}")
            dashed = " dashed" if kind in ("group", "last stable offset") else ""
            yield path(
                _thinned(points),
                f"stroke{dashed} {'thick ' if kind in ('reader', 'high watermark') else ''}{colour}",
                title=words,
            )
            if kind == "reader" and len(moves) <= MOST_DOTS:
                for time, offset in moves:
                    again = (name, time) in self.story.returns
                    title = f"{time_of_day(time)}  {words} from {offset}{' again' * again}"
                    yield dot(self.x(offset), self._y(time), 4 if again else 3, f"fill {'bad' if again else colour}", title)

    def _arrivals(self) -> Iterator[Mark]:
        """Draw each batch at its time. A stored batch is drawn at its offsets, and a refused batch with the reason of the
        refusal.
        """
        drawn = -99.0, -99.0
        for batch in self.story.batches:
            y, row = self._y(batch.time), batch.row
            where = batch.first if batch.first >= 0 else batch.at
            x = self.x(where)
            if row.verdict == "accepted":
                if abs(y - drawn[0]) < 1 and abs(x - drawn[1]) < 1:
                    continue
                drawn = y, x
                yield group(
                    [
                        rect(
                            x,
                            y - 3.5,
                            max(self.x(batch.last + 1) - x, 2),
                            7,
                            f"fill {self.names[batch.producer]}",
                            _title(batch),
                            1,
                        )
                    ],
                    row=batch.number,
                )
                continue
            words = f"duplicate of {batch.first}" if row.verdict == "duplicate" else row.error
            marks = (
                [rect(x, y - 3.5, max(self.x(batch.last + 1) - x, 4), 7, f"box {row.verdict}", _title(batch), 1)]
                if batch.first >= 0
                else []
            )
            marks += cross(x, y, 5, f"stroke thick {row.verdict}") if row.verdict == "rejected" else []
            beside = max(self.x(batch.last + 1), x) + 8
            yield group(
                [*marks, *self._words(beside, x - 8, y, words, row.verdict), Mark("title", {}, _title(batch))], row=batch.number
            )

    def _words(self, right: float, left: float, y: float, words: str, kind: str) -> list[Mark]:
        """Draw words to the right of `right` or, if there is no room, to the left of `left`."""
        if right + len(words) * LETTER < self.right:
            return label(right, y, words, kind)
        return label(left, y, fitted(words, left - self.left), kind, end=True)

    def _notes(self) -> Iterator[Mark]:
        for time, words, kind, end in self.story.notes[-100:]:
            y = self._y(time)
            if kind == "fault":
                yield from self._words(self.x(end) + 8, self.x(end) - 60, y, words, kind)
            else:
                yield line(self.left, y, self.right, y, f"stroke dashed {kind}")
                yield from label(self.left + 6, y, fitted(words, self.right - self.left - 20), kind)

    def _keys(self, y: float) -> tuple[list[Mark], float]:
        """Draw the legend of the lines, with the value at the end of each line."""
        marks: list[Mark] = []
        x, room = float(self.left), (self.right - self.left) / (2 if self.width >= 700 else 1)
        for kind, name, colour, words in self._paths():
            dashed = "dashed " if kind in ("group", "last stable offset") else ""
            thick = "thick " if kind in ("reader", "high watermark") else ""
            moves = self.story.moves[kind, name]
            at = f"{words} → {moves[-1][1]:,}"
            again = sum((name, time) in self.story.returns for time, _ in moves) if kind == "reader" else 0
            at += f", back {'once' if again == 1 else f'{again:,} times'} (red)" * bool(again)
            at += ", then left it" * (kind == "reader" and name in self.story.left)
            marks += [
                line(x, y - 4, x + 22, y - 4, f"stroke {dashed}{thick}{colour}"),
                text(x + 28, y, fitted(at, room - 36), "say plain"),
            ]
            x += room
            if x + room > self.right + 1:
                x, y = self.left, y + 18
        return marks, y + (14 if x > self.left else 0)


def _title(batch: Batch) -> str:
    more = [f"and {batch.more:,} more batches, until offset {batch.until:,}"] if batch.more else []
    lines = [f"{time_of_day(batch.time)}  {batch.producer}", batch.row.explain, *more, *batch.faults]
    return "\n".join(lines)


def _thinned(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yields the points, except points that are less than half a px from the previous point."""
    before = -9.0, -9.0
    for point in points:
        if abs(point[0] - before[0]) >= 0.5 or abs(point[1] - before[1]) >= 0.5:
            yield point
            before = point
