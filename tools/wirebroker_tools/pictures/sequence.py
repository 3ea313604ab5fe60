"""Draws the sequence diagram. The diagram has a lane for each client and each broker, and an arrow for each request and
response. Time goes downward.

Idle periods are folded. If there are still more steps than lines, consecutive similar steps share an arrow that shows their
number. A step that failed, or on which a fault acted, keeps its own arrow as long as there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct, field

from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import FaultRow, ReplyRow, RequestRow, Row
from wirebroker_tools.pictures.exchanges import (
    ANSWERED,
    ASKED,
    IDLE,
    NOTED,
    PLAIN,
    QUIET,
    STRIKING,
    Lane,
    Step,
    broker_lane,
    client_lane,
    span_of,
    steps_of,
)
from wirebroker_tools.pictures.marks import (
    LETTER,
    LINE,
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
    named,
    path,
    rect,
    rounded,
    text,
)

MOST_CLIENTS, MOST_BROKERS = 10, 6
"""At most MOST_CLIENTS lanes are for clients, and at most MOST_BROKERS lanes are for brokers. If there are more clients than
lanes, the remaining clients share the last lane; the same applies to brokers.
"""
DETAILED = 20_000
"""In a window of at most this many rows, the steps are read one by one. In a larger window, rows are only counted."""
PAUSE_MS = 1000
"""A pause of at least this many ms between two lines is shown."""
TOP = 34
GAP = 210
"""The middle column, which holds the labels, has at least this width in px."""
HEAD_LETTER = 7.25
"""The width of a letter in the name of a lane."""
HEAD_LINE, MOST_HEAD_LINES = 14, 4
"""For the name of a lane: the height of a line in px, and the largest number of lines."""
SHORTEST_LINE = 8
"""If a lane has no room for this many letters, its name is vertical."""
TALLEST_HEAD = 170
"""The vertical names of narrow lanes have at most this height in px."""
USUAL_STEP, WIDEST_STEP = 130, 200
"""The usual distance in px between two lanes, and the largest distance if the names are long."""
OTHERS = "others"
MEANINGS = (
    "two heads: a request and its response", "broad: several", "grey: idle polls, connections", "boxed: a change",
    "purple: a fault", "red: a refusal", "amber: a retry that the broker knew", "cross: it never arrived",
)  # fmt: skip
MOST_REPEATS = 6
"""Repetitions of a failure are folded only if there are at least this many."""
MOST_NOTES = 4
"""If there are more notes than this between two arrows, they are folded."""


class Fold(Struct):
    """Several steps that share an arrow."""

    client: Lane | None
    broker: Lane | None
    first: int
    last: int
    began: int
    ended: int
    counts: Counter[str] = field(default_factory=Counter)
    """the number of exchanges of each API"""
    bad: Counter[str] = field(default_factory=Counter)
    """the number of failures of each kind, in words"""
    faults: int = 0
    spans: list[tuple[int, int, int, int]] = []
    place: str = ""
    is_idle: bool = True
    has_notes: bool = False


class Pair(Struct, frozen=True):
    """A request and the response that directly follows it, on one line."""

    asked: Step
    answered: Step

    @property
    def client(self) -> Lane | None:
        return self.asked.client

    @property
    def broker(self) -> Lane | None:
        return self.asked.broker


Line = Step | Pair | Fold


def sequence(rows: Sequence[tuple[int, Row]], width: int = 1000, lines: int = 60) -> Picture:
    """Draws numbered rows in at most about `lines` lines."""
    drawn = _folded(steps_of(rows), lines) if len(rows) <= DETAILED else list(_counted(rows, lines))
    lanes = _Lanes(drawn, width)
    marks, height = _drawn(drawn, lanes)
    first, last = (rows[0][0], rows[-1][0]) if rows else (0, 0)
    return Picture("sequence", "requests and responses, downward in time", width, height, marks, first, last)


# Folding


def _folded(steps: Sequence[Step], lines: int) -> list[Line]:
    """Fold more and more steps until there are at most `lines` lines: first idle steps, then consecutive similar steps, then
    the steps between striking steps, and at last all steps."""
    for fold in (_without_idle, _pairs, _alike, _between, _pieces):
        drawn = list(fold(steps, lines))
        if len(drawn) <= lines or (fold is _between and len(drawn) <= 2 * lines):
            break
    return drawn


def _without_idle(steps: Sequence[Step], lines: int) -> Iterator[Line]:
    for quiet, run in groupby(steps, key=lambda step: step.interest == QUIET):
        together = list(run)
        yield from _folds(together) if quiet else _repeats(together)


def _repeats(steps: Sequence[Step]) -> Iterator[Line]:
    """Fold the repetitions of a failure, except the first two and the last."""
    for failed, each in groupby(steps, key=_failure):
        run = list(each)
        kept = 2 if run[0].way == NOTED else 4
        folded = run[kept : -kept // 2]
        if failed is None or len(folded) < MOST_REPEATS:
            yield from run
            continue
        yield from (*run[:kept], *_folds(folded), *run[-kept // 2 :])


def _failure(step: Step) -> tuple[object, ...] | None:
    """Returns a key that is equal for repetitions of the same failure, or None if the step has not failed."""
    told = step.answer if step.way == ASKED and step.answer is not None else step
    if step.interest != STRIKING or told.kind not in ("bad", "rejected"):
        return None
    return (step.way == NOTED, step.client, step.broker, step.api, told.words)


def _pairs(steps: Sequence[Step], lines: int) -> Iterator[Line]:
    waiting: Step | None = None
    for each in _without_idle(steps, lines):
        if waiting is not None and each is waiting.answer and each.interest == PLAIN:
            yield Pair(waiting, each)
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        waiting = each if isinstance(each, Step) and each.way == ASKED else None
        if waiting is None:
            yield each
    if waiting is not None:
        yield waiting


def _alike(steps: Sequence[Step], lines: int) -> Iterator[Line]:
    """Fold the exchanges of one API if at least three follow each other."""
    for _, each in groupby(steps, key=_key):
        run = list(each)
        if run[0].interest == STRIKING or (run[0].interest == PLAIN and len(run) < 6):
            yield from _pairs(run, lines)
        else:
            yield from _in_pieces(run, max(4 * len(steps) // lines, 1))


def _between(steps: Sequence[Step], lines: int) -> Iterator[Line]:
    """Fold the steps between striking steps."""
    for striking, each in groupby(steps, key=lambda step: step.interest == STRIKING):
        run = list(each)
        yield from _repeats(run) if striking else _in_pieces(run, max(4 * len(steps) // lines, 1))


def _in_pieces(steps: Sequence[Step], most: int) -> Iterator[Line]:
    for at in range(0, len(steps), most):
        yield from _folds(steps[at : at + most])


def _key(step: Step) -> tuple[object, ...]:
    if step.interest == QUIET:
        return ("idle",)
    return (step.interest == STRIKING, step.client, step.broker, step.api)


def _pieces(steps: Sequence[Step], lines: int) -> Iterator[Line]:
    """Fold all steps, in pieces of equal length."""
    return _in_pieces(steps, -(-len(steps) // max(lines // 2, 1)))


def _folds(steps: Sequence[Step]) -> Iterator[Line]:
    """Yields one fold for each pair of client and broker in the steps. A single step and a few notes are not folded."""
    found: dict[tuple[Lane | None, Lane | None], list[Step]] = {}
    for step in steps:
        found.setdefault((step.client, step.broker), []).append(step)
    for pair, each in found.items():
        if len(each) == 1 or (pair[0] is None and len(each) <= MOST_NOTES):
            yield from each
            continue
        first = each[0]
        fold = Fold(*pair, first.number, first.number, first.time, first.time, place=first.place)
        for step in each:
            _add(fold, step)
        yield fold


def _add(fold: Fold, step: Step) -> None:
    fold.last, fold.ended = max(step.number, fold.last), max(step.time, fold.ended)
    fold.is_idle = fold.is_idle and step.interest == QUIET
    told = step  # an exchange and its error are counted at the request
    if step.way == ASKED or (step.way == ANSWERED and not fold.counts[step.api]):
        fold.counts[step.api] += 1
        fold.place = step.place if step.place == fold.place else ""
        told = step.answer or step
    elif step.way == NOTED:
        fold.counts[step.words] += 1
        fold.has_notes = True
    if step.spans[2] >= 0:
        fold.spans.append(step.spans)
    fold.faults += step.kind == "fault"
    if (told is not step or step.way != ANSWERED) and told.kind in ("bad", "rejected", "duplicate"):
        fold.bad[told.words.partition(":")[0].partition(" of ")[0]] += 1


def _counted(rows: Sequence[tuple[int, Row]], lines: int) -> Iterator[Fold]:
    """Yields the folds of a very large number of rows, in pieces of equal length. To save time, this function creates no `Step`
    objects for the rows.
    """
    length = -(-len(rows) // max(lines // 2, 1))
    has_requests = any(isinstance(row, RequestRow) for _, row in rows[:length])
    for at in range(0, len(rows), length):
        found: dict[tuple[str | None, int], Fold] = {}
        for number, row in rows[at : at + length]:
            node = getattr(row, "node", None)
            if node is None or not hasattr(row, "client_id"):
                continue
            fold = found.get((row.client_id, node))
            if fold is None:
                lanes = client_lane(row.client_id), broker_lane(node)
                fold = found[row.client_id, node] = Fold(*lanes, number, number, row.time, row.time)
            fold.last, fold.ended = number, row.time
            _count(fold, row, has_requests)
        yield from found.values()


def _count(fold: Fold, row: Row, has_requests: bool) -> None:
    if isinstance(row, ReplyRow):
        fold.counts[row.api] += 1
        fold.is_idle = fold.is_idle and row.api in IDLE
        fold.bad.update(row.errors)
    elif isinstance(row, FaultRow):
        fold.faults += 1
    elif row.event in ("produce", "shadow") and row.verdict == "duplicate":  # type: ignore[attr-defined]
        fold.bad["duplicate"] += 1


def words_of(fold: Fold) -> str:
    """Returns the label of a fold: the APIs with their numbers of exchanges. If all exchanges are of one API and one partition,
    and all have batches, the label also has the batches' range of sequences and range of offsets.
    """
    (api, count), *others = fold.counts.most_common() or [("", 0)]
    if not others and fold.place and fold.spans and count == len(fold.spans):
        (first, _, low, _), (_, last, _, high) = fold.spans[0], fold.spans[-1]
        sequences = f" seq {span_of(first, last)}" if first >= 0 else ""
        times = f"{count:,} × " if count > 1 else ""
        return f"{times}{api} {fold.place}{sequences} → offset{'s' * (high > low)} {span_of(low, high)}"
    named = ", ".join(name if times == 1 else f"{times:,} × {name}" for name, times in fold.counts.most_common(4))
    more = f" +{len(fold.counts) - 4} more" if len(fold.counts) > 4 else ""
    place = f" {fold.place}" if fold.place and not others else ""
    lasted = fold.ended - fold.began
    return f"{named}{more}{place}" + (f" · {lasted / 1000:.1f} s" if lasted >= PAUSE_MS else "")


# Layout


class _Lanes:
    """Places the lanes of clients on the left, the lanes of brokers on the right, and the words between them."""

    def __init__(self, drawn: Iterable[Line], width: int) -> None:
        seen = dict.fromkeys(lane for each in drawn for lane in (each.client, each.broker) if lane is not None)
        clients = sorted(lane for lane in seen if lane[0] == "client")
        brokers = sorted((lane for lane in seen if lane[0] == "broker"), key=lambda lane: (len(lane[1]), lane[1]))
        self._rest: dict[Lane, Lane] = {}
        self.clients, self.brokers = self._limited(clients, MOST_CLIENTS), self._limited(brokers, MOST_BROKERS)
        self._colours = coloured(lane[1] for lane in self.clients)
        self.width = width
        self.gutter = 92 if width >= 560 else 50
        room = width - self.gutter - 16
        between = max(len(self.clients) + len(self.brokers) - 2, 1)
        longest = max((len(lane[1]) for lane in (*self.clients, *self.brokers)), default=0)
        widest = min(max(longest * HEAD_LETTER + 16, USUAL_STEP), WIDEST_STEP)
        self.step = min(max((room - max(GAP, room * 0.45)) / (between + 1), 16), widest)
        edge = self.step / 2
        letters = int((self.step - 14) / HEAD_LETTER)
        self.is_narrow = letters < min(SHORTEST_LINE, longest)
        self.names = {lane: _wrapped(lane[1], letters) for lane in (*self.clients, *self.brokers)} if not self.is_narrow else {}
        self.top = TOP + HEAD_LINE * (max(map(len, self.names.values()), default=1) - 1)
        if self.is_narrow:
            self.top = int(min(max(TOP + 50, longest * HEAD_LETTER + 28), TALLEST_HEAD))
        self.x = {lane: self.gutter + edge + at * self.step for at, lane in enumerate(self.clients)}
        self.x |= {lane: width - 8 - edge - at * self.step for at, lane in enumerate(reversed(self.brokers))}
        self.left = max((self.x[lane] for lane in self.clients), default=self.gutter)
        self.right = min((self.x[lane] for lane in self.brokers), default=width - 16)

    def _limited(self, lanes: list[Lane], most: int) -> list[Lane]:
        if len(lanes) <= most:
            return lanes
        rest = lanes[0][0], f"{len(lanes) - most + 1} {OTHERS}"
        self._rest |= dict.fromkeys(lanes[most - 1 :], rest)
        return [*lanes[: most - 1], rest]

    def of(self, lane: Lane | None) -> float | None:
        """Returns the x coordinate of the middle of a lane."""
        return None if lane is None else self.x[self._rest.get(lane, lane)]

    def colour(self, lane: Lane | None) -> str:
        """Returns the colour class of a client."""
        lane = self._rest.get(lane, lane) if lane is not None else None
        return self._colours.get(lane[1], "dim") if lane is not None else "dim"

    def lines(self, height: float) -> Iterator[Mark]:
        """Draw the life lines."""
        for lane in (*self.clients, *self.brokers):
            yield line(self.x[lane], self.top - 8, self.x[lane], height, "rule" if lane in self.brokers else "rule dashed")

    def heads(self, hour: str = "") -> Mark:
        """Draw the names of the lanes and, to the left of the names, the hour and the minute. If the lanes are narrow, the
        names are vertical.
        """
        marks, room = [rect(0, 0, self.width, self.top - 4, "back")], self.step - 6
        for lane in (*self.clients, *self.brokers):
            x, tall, kind = self.x[lane], self.top - 12, self.colour(lane)
            marks.append(rect(x - room / 2, 4, room, tall, f"box {kind}", lane[1], 4))
            if self.is_narrow:
                upright: dict[str, str | int | float] = {
                    "transform": f"rotate(-90 {rounded(x + 4)} {tall})",
                    "x": rounded(x + 4),
                    "y": tall,
                }
                name = named(lane[1], tall - 6, HEAD_LETTER)
                marks.append(Mark("text", upright | {"class": f"head say {kind}"}, name))
            else:
                first = 19 + (tall - 22 - HEAD_LINE * (len(self.names[lane]) - 1)) / 2
                for at, words in enumerate(self.names[lane]):
                    marks.append(text(x, first + at * HEAD_LINE, words, f"head middle say {kind}"))
        if hour:
            marks.append(text(self.gutter - 10, self.top - 10, hour, "end say dim"))
        return Mark("g", {"class": "heads"}, "", marks)


def _wrapped(name: str, letters: int) -> list[str]:
    """Returns the name in lines of at most `letters` letters, divided after punctuation if possible."""
    left, lines = named(name, MOST_HEAD_LINES * letters, 1), list[str]()
    while len(left) > letters and len(lines) < MOST_HEAD_LINES - 1:
        ends = [at for at in range(letters // 2, letters + 1) if not left[at - 1].isalnum()]
        at = max(ends, default=letters)
        lines.append(left[:at].rstrip())
        left = left[at:]
    return [*lines, fitted(left, letters * LETTER)]


def _drawn(drawn: Sequence[Line], lanes: _Lanes) -> tuple[list[Mark], int]:
    marks: list[Mark] = []
    waits: list[Mark] = []
    y, before, shown = lanes.top + 12.0, None, ""
    places: dict[int, float] = {}
    for each in drawn:
        began = _began(each)
        if before is not None and began - before >= PAUSE_MS:
            marks += _pause(began - before, y, lanes)
            y += LINE
        clock = _clock(began, lanes)
        if clock != shown:
            marks.append(text(lanes.gutter - 10, y + 4, clock, "end say dim"))
            shown = clock
        places[id(each)] = y
        marks.append(_line(each, y, lanes))
        before = each.ended if isinstance(each, Fold) else max(began, before or 0)
        y += LINE
    for each in drawn:
        if isinstance(each, Step) and each.answer is not None and id(each.answer) in places:
            waits += _wait(each, places[id(each)], places[id(each.answer)], lanes)
    if not drawn:
        marks.append(text(lanes.gutter, lanes.top + 16, "no request was traced", "say dim"))
        return [*marks, lanes.heads()], lanes.top + 30
    meanings, bottom = legend(MEANINGS, 8, y + 16, lanes.width - 8)
    hour = time_of_day(_began(drawn[0]))[:5] if lanes.gutter <= 60 else ""  # narrow lines show only minutes and seconds
    return [*lanes.lines(y), *waits, *marks, *meanings, lanes.heads(hour)], int(bottom + 6)


def _began(each: Line) -> int:
    return each.began if isinstance(each, Fold) else each.asked.time if isinstance(each, Pair) else each.time


def _line(each: Line, y: float, lanes: _Lanes) -> Mark:
    if isinstance(each, Fold):
        return _fold(each, y, lanes)
    return _pair(each, y, lanes) if isinstance(each, Pair) else _step(each, y, lanes)


def _clock(time: int, lanes: _Lanes) -> str:
    clock = time_of_day(time)
    return clock if lanes.gutter > 60 else clock[6:]


def _pause(ms: int, y: float, lanes: _Lanes) -> list[Mark]:
    words = f"{ms / 1000:.1f} s"
    left, right = lanes.gutter, lanes.width - 8
    return [line(left, y, right, y, "rule dashed"), text(lanes.gutter - 10, y + 4, f"⋮ {words}", "end say dim")]


def _wait(asked: Step, y: float, end: float, lanes: _Lanes) -> list[Mark]:
    """Draw a bar on the broker's lane while a request waits for its response."""
    x = lanes.of(asked.broker)
    if x is None or end - y <= LINE:
        return []
    return [rect(x - 3, y, 6, end - y, f"half {lanes.colour(asked.client)}", f"{asked.words}: waits", 2)]


def _step(step: Step, y: float, lanes: _Lanes) -> Mark:
    client, broker = lanes.of(step.client), lanes.of(step.broker)
    kind = lanes.colour(step.client) if step.kind == "plain" else step.kind
    if step.way == NOTED:
        return group(
            [_hit(y, lanes), *_note(step.words, step.kind, y, lanes, broker, client), *_title(step, y, lanes)], row=step.number
        )
    assert client is not None
    assert broker is not None
    start, stop = (client, broker) if step.way == ASKED else (broker, client)
    words = fitted(step.words, lanes.right - lanes.left - 46)
    if step.is_lost:
        wide = 22 + len(words) * LETTER
        stop = lanes.left + wide if step.way == ASKED else lanes.right - wide
    marks = [_hit(y, lanes), *_arrow(start, stop, y, kind, step.is_lost)]
    marks += label(lanes.left + 14 if step.way == ASKED else lanes.right - 14, y, words, step.kind, step.way == ANSWERED)
    return group([*marks, *_title(step, y, lanes)], row=step.number)


def _pair(pair: Pair, y: float, lanes: _Lanes) -> Mark:
    client, broker = lanes.of(pair.client), lanes.of(pair.broker)
    assert client is not None
    assert broker is not None
    room, kind = lanes.right - lanes.left - 30, lanes.colour(pair.client)
    words = pair.answered.words
    asked = fitted(pair.asked.words, room - (min(len(words), 24) + 3) * LETTER)
    answered = fitted(words, room - (len(asked) + 3) * LETTER)
    marks = [_hit(y, lanes), line(client + 6, y, broker - 6, y, f"stroke {kind}"), *_heads(client, broker, y, kind)]
    marks += label(lanes.left + 14, y, asked, "plain") + label(lanes.right - 14, y, answered, pair.answered.kind, end=True)
    return group([*marks, *_title(pair.answered, y, lanes)], row=pair.answered.number)


def _title(step: Step, y: float, lanes: _Lanes) -> list[Mark]:
    said = "\n".join(dict.fromkeys(filter(None, (step.words, step.title))))
    return [Mark("title", {}, f"{time_of_day(step.time)}  {said}")]


def _hit(y: float, lanes: _Lanes) -> Mark:
    return rect(2, y - LINE / 2, lanes.width - 4, LINE, "hit")


def _arrow(start: float, stop: float, y: float, kind: str, is_lost: bool) -> list[Mark]:
    """Draw an arrow; a lost request or response ends with a cross."""
    side = 1 if stop > start else -1
    shaft = line(start + side * 4, y, stop - side * 2, y, f"stroke {kind}")
    if is_lost:
        return [dot(start, y, 2.5, f"fill {kind}"), shaft, *cross(stop, y, 5, f"stroke thick {kind}")]
    head = path([(stop - side * 8, y - 3.5), (stop - side, y), (stop - side * 8, y + 3.5)], f"fill {kind}", close=True)
    return [dot(start, y, 2.5, f"fill {kind}"), shaft, head]


def _note(said: str, kind: str, y: float, lanes: _Lanes, at: float | None, client: float | None = None) -> list[Mark]:
    """Draw a change as a box in the middle. Lines connect the box to the broker's lane and, if the change is about a client, to
    the client's lane.
    """
    room = lanes.right - lanes.left - 20
    words = fitted(said, room - 16)
    wide = len(words) * LETTER + 16
    middle = lanes.left + (lanes.right - lanes.left) / 2
    tie = [line(middle + wide / 2, y, at, y, f"stroke thin {kind}"), dot(at, y, 3, f"fill {kind}")] if at else []
    if client is not None:
        tie += [line(client, y, middle - wide / 2, y, f"stroke thin {kind}"), dot(client, y, 3, f"fill {kind}")]
    box = rect(middle - wide / 2, y - 8, wide, 16, f"box {kind}", "", 8)
    return [*tie, box, text(middle, y + 4, words, f"middle say {kind}")]


def _fold(fold: Fold, y: float, lanes: _Lanes) -> Mark:
    client, broker = lanes.of(fold.client), lanes.of(fold.broker)
    wrong = ", ".join(f"{count:,} × {name}" if count > 1 else name for name, count in fold.bad.most_common(3))
    struck = f"⚡ {fold.faults:,}" if fold.faults else ""
    kind = "dim" if fold.is_idle else lanes.colour(fold.client)
    marks = [_hit(y, lanes)]
    if fold.has_notes and len(fold.counts) == 1 and not struck:
        ((words, count),) = fold.counts.items()
        marks += _note(f"{count:,} × {words}", "bad" if wrong else "note", y, lanes, broker, client)
        took = f"{time_of_day(fold.began)} to {time_of_day(fold.ended)}"
        return group([*marks, Mark("title", {}, took)], first=fold.first, last=fold.last)
    if client is not None and broker is not None:
        marks += _both_ways(client, broker, y, kind, sum(fold.counts.values()))
    if client is None and not wrong and not struck:
        marks += _note(words_of(fold), "note", y, lanes, broker)
    else:
        marks += _fold_words(fold, [(struck, "fault"), (wrong, "bad")], y, lanes)
    took = f"{time_of_day(fold.began)} to {time_of_day(fold.ended)}"
    names = "\n".join(f"{times:,} × {name}" for name, times in [*fold.counts.most_common(), *fold.bad.most_common()])
    return group([*marks, Mark("title", {}, f"{took}\n{names}")], first=fold.first, last=fold.last)


def _fold_words(fold: Fold, extras: Iterable[tuple[str, str]], y: float, lanes: _Lanes) -> list[Mark]:
    marks: list[Mark] = []
    end = lanes.right - 16
    for words, kind in extras:
        if words:
            shown = fitted(words, (lanes.right - lanes.left) * 0.5)
            marks += label(end, y, shown, kind, end=True)
            end -= (len(shown) + 1) * LETTER
    room = end - lanes.left - 14
    return [*label(lanes.left + 14, y, fitted(words_of(fold), room), "dim" if fold.is_idle else "plain"), *marks]


def _both_ways(client: float, broker: float, y: float, kind: str, count: int) -> list[Mark]:
    """Draw a line for several exchanges. The line is thicker if it stands for more exchanges."""
    thick = min(1 + len(str(max(count, 1))) * 2, 11)
    return [
        rect(client + 6, y - thick / 2, broker - client - 12, thick, f"tint {kind}", "", 2),
        *_heads(client, broker, y, kind),
    ]


def _heads(client: float, broker: float, y: float, kind: str) -> list[Mark]:
    """Draw the heads of an arrow that has a head at both ends."""
    return [
        path([(x + side * 8, y - 3.5), (x + side, y), (x + side * 8, y + 3.5)], f"fill {kind}", close=True)
        for x, side in ((client, 1), (broker, -1))
    ]
