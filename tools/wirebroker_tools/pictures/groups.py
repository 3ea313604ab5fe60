"""Draws a group with a lane for each partition and each member: the owners of the partitions over time, rebalances, and the
members' heartbeats. Time goes to the right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from msgspec import Struct

from wirebroker.trace.layout import time_of_day
from wirebroker.trace.rows import GroupRow, ReplyRow, Row
from wirebroker_tools.pictures.exchanges import USUAL
from wirebroker_tools.pictures.marks import LETTER, Mark, Picture, coloured, cross, fitted, legend, line, named, rect, text

Numbered = tuple[int, Row]
HEARTBEATS = frozenset(("Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"))
LANE = 22
MOST_LANES = 60
"""At most this many partitions, and at most this many members, are drawn."""
ASKED, GONE_MS = 3, 3000
"""The coordinator counts as gone if clients send at least this many FindCoordinator requests in at least this many ms, and the
coordinator does not respond in this time.
"""
NO_COORDINATOR = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"))
STEPS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
    3_600_000, 10_800_000, 21_600_000, 86_400_000,
)  # fmt: skip
"""The possible distances in ms between two times on the time axis."""
GENERATION = 64
"""If the names of two generations are at least this many px apart, there is room for the word "generation"."""
MISSED = 3
"""A pause between heartbeats is marked if it is more than this many times as long as a usual heartbeat interval."""
UNSTABLE = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))


class Member(Struct):
    name: str
    seen: int
    left: int = -1
    beats: list[int] = []
    events: list[tuple[int, str, str]] = []
    """for each error and each notable request: its time, its words and its CSS class"""
    had: dict[str, int] = {}
    """the member's partitions, with the time at which the member got each partition"""


class Story(Struct):
    """The events of a group, in the form in which they are drawn."""

    members: dict[str, Member] = {}
    held: list[tuple[str, str, int, int]] = []
    """for each ownership: the partition, the member, and the times at which it began and ended"""
    states: list[tuple[int, str, int]] = []
    """time, state, generation"""
    first: int = -1
    last: int = 0
    asked: list[int] = []
    """the times at which members asked for the coordinator since its last response"""
    gone: list[tuple[int, int]] = []
    """the periods in which no coordinator responded: begin and end of each"""

    def responded(self, time: int) -> None:
        """Remember that the coordinator has responded, or that the picture ends."""
        if len(self.asked) >= ASKED and self.asked[-1] - self.asked[0] >= GONE_MS:
            self.gone.append((self.asked[0], time))
        self.asked.clear()


def groups(rows: Sequence[Numbered], first: int, width: int, of: str) -> Picture:
    """Draws a group. If a member had partitions before the row `first`, they are drawn from the time of that row on."""
    window = next((each for each in rows if each[0] >= first), None)
    last = rows[-1] if rows else None
    rows = [
        each
        for each in rows
        if type(each[1]) is GroupRow
        or (type(each[1]) is ReplyRow and ("member_id" in each[1].details or each[1].api == "FindCoordinator"))
    ]
    counts: dict[str, int] = {}
    for _, row in rows:
        if not (isinstance(row, ReplyRow) and row.api == "FindCoordinator"):
            for name in _groups_of(row):
                counts[name] = counts.get(name, 0) + 1
    choices = sorted(counts, key=lambda name: (-counts[name], name))[:200]
    chosen = of if of in counts else choices[0] if choices else ""
    numbers = (window[0], last[0]) if window is not None and last is not None else (0, 0)
    if not chosen or window is None or last is None:
        marks = [text(8, 24, "no request of a group was traced here", "say dim")]
        return Picture("groups", "groups", width, 40, marks, *numbers)
    story = _read(rows, chosen)
    drawn, height = _Drawing(story, chosen, window[1].time, last[1].time, width).draw()
    return Picture("groups", f"the group {chosen}", width, height, drawn, *numbers, choices, chosen)


def _groups_of(row: Row) -> Iterator[str]:
    if isinstance(row, GroupRow):
        yield row.group
    elif isinstance(row, ReplyRow):
        yield from (each.removeprefix("group ") for each in row.about if each.startswith("group "))


def _read(rows: Sequence[Numbered], name: str) -> Story:
    story = Story()
    for _, row in rows:
        if name not in _groups_of(row):
            continue
        story.first = row.time if story.first < 0 else story.first
        story.last = row.time
        if isinstance(row, GroupRow):
            story.states.append((row.time, row.state, row.generation))
        elif isinstance(row, ReplyRow):
            _reply(story, row)
    story.responded(story.last)
    for member in story.members:
        for partition, began in story.members[member].had.items():
            story.held.append((partition, member, began, -1))
    return story


def _reply(story: Story, row: ReplyRow) -> None:
    if row.api == "FindCoordinator":
        story.asked.append(row.time)
        return
    if not NO_COORDINATOR & set(row.errors):
        story.responded(row.time)
    key = str(row.details.get("member_id", ""))
    if not key:
        return
    member = story.members.get(key)
    if member is None:
        member = story.members[key] = Member(row.client_id or key, row.time)
    if row.api in HEARTBEATS and not row.errors:
        member.beats.append(row.time)
    for error in row.errors:
        member.events.append((row.time, f"{row.api}: {error}", "warn" if error in USUAL else "bad"))
    if row.api == "JoinGroup" and not row.errors:
        member.events.append((row.time, "joins", "note"))
    if row.api == "LeaveGroup" and not row.errors:
        member.left = row.time
        member.events.append((row.time, "leaves", "dim"))
        _assign(story, key, row.time, [])
    if "assigned" in row.details and not row.errors:
        _assign(story, key, row.time, [each for each in str(row.details["assigned"]).split(", ") if each])


def _assign(story: Story, key: str, time: int, partitions: Sequence[str]) -> None:
    """Remember that from now on this member has these partitions and no others, and that other members have none of these
    partitions.
    """
    for other, member in story.members.items():
        for each in list(member.had):
            if (other == key) != (each in partitions):
                story.held.append((each, other, member.had.pop(each), time))
    for each in partitions:
        story.members[key].had.setdefault(each, time)


class _Drawing:
    def __init__(self, story: Story, name: str, began: int, ended: int, width: int) -> None:
        self.story, self.name, self.width = story, name, width
        self.began, self.ended = max(began, story.first), max(ended, story.first + 1, began + 1)
        self.members = {key: each for key, each in story.members.items() if each.left < 0 or each.left >= self.began}
        self.lanes = _lanes(self.members)
        alike = Counter(self.members[lane[0]].name for lane in self.lanes)
        self.names: dict[str, str] = {}
        for lane in self.lanes:
            name = self.members[lane[0]].name
            name = name if alike[name] == 1 else f"{name} …{lane[0][-6:]}"
            self.names |= dict.fromkeys(lane, name)
        self.colours = coloured(self.names[key] for key in sorted(self.members, key=lambda key: self.names[key]))
        self.left, self.right = (150 if width >= 640 else 84), width - 12

    def x(self, time: int) -> float:
        """Returns the x coordinate of a time."""
        time = min(max(time, self.began), self.ended)
        return self.left + (time - self.began) / (self.ended - self.began) * (self.right - self.left)

    def draw(self) -> tuple[list[Mark], int]:
        """Returns the marks and the height."""
        held = [each for each in self.story.held if each[1] in self.members and (each[3] < 0 or each[3] >= self.began)]
        partitions = sorted({each[0] for each in held}, key=lambda name: (name.rpartition("-")[0], len(name), name))[
            :MOST_LANES
        ]
        members = self.lanes[:MOST_LANES]
        top = 58.0
        middle = top + (len(partitions) + 1) * LANE
        height = middle + (len(members) + 1) * LANE + 8
        keys = [
            "amber: a rebalance, or a usual error",
            "ticks: heartbeats",
            "blue: joins",
            "grey: leaves",
            "red: a refusal, no heartbeat, or no coordinator",
        ]
        day = f"group {self.name} on {datetime.fromtimestamp(self.began // 1000):%Y-%m-%d}"
        marks = [text(8, 14, fitted(day, self.width - 20), "head"), *self._rebalances(32, height - 24)]
        marks += self._heading(top, "who has the partition" if partitions else "no assignment was traced")
        for at, name in enumerate(partitions):
            marks += self._partition(top + (at + 1) * LANE, name, held)
        marks += self._heading(middle, "members and heartbeats")
        for at, lane in enumerate(members):
            y, name = middle + (at + 1) * LANE, self.names[lane[0]]
            marks.append(text(self.left - 8, y + 4, named(name, self.left - 12), f"end say {self.colours[name]}"))
            for key in lane:
                marks += self._member(y, key)
        marks += self._without_coordinator(top, middle)
        explained, bottom = legend(keys, 8, height + 30, self.width - 8)
        return [*marks, *explained, *self._times(height)], int(bottom)

    def _without_coordinator(self, top: float, bottom: float) -> Iterator[Mark]:
        """For each period in which no coordinator responds, draw a box over the partitions, because the owners of the
        partitions are not known in this period.
        """
        for began, ended in self.story.gone:
            if ended < self.began or began > self.ended:
                continue
            x, end = self.x(began), self.right if ended >= self.story.last else self.x(ended)
            words = "no coordinator responds"
            yield rect(x, top + 8, max(end - x, 2), bottom - top - 2, "tint boxed bad", f"{time_of_day(began)}  {words}", 3)
            if shown := fitted(words, end - x - 12):
                yield text(x + 6, top + 4, shown, "say bad")

    def _heading(self, y: float, words: str) -> list[Mark]:
        return [text(8, y - 4 + LANE / 2, words, "say dim"), line(self.left, y + LANE - 12, self.right, y + LANE - 12, "rule")]

    def _rebalances(self, y: float, bottom: float) -> Iterator[Mark]:
        """Draw a band for each rebalance, and the generations between the bands."""
        drawn = -99.0
        began: int | None = None
        stable = [
            self.x(time) for time, state, _ in self.story.states if state == "Stable" and self.began <= time <= self.ended
        ]
        is_crowded = any(later - earlier < GENERATION for earlier, later in pairwise(stable))
        for (time, state, generation), (until, _, _) in pairwise([*self.story.states, (self.ended, "", 0)]):
            if until < self.began or time > self.ended:
                continue
            x = self.x(time)
            if state in UNSTABLE:
                began = time if began is None else began
                yield rect(
                    x,
                    y + 4,
                    max(self.x(until) - x, 2),
                    bottom - y,
                    "tint warn",
                    f"{time_of_day(time)} {state}, generation {generation}",
                )
                continue
            begun = self.x(began if began is not None else time)
            began = None
            words = f"gen {generation}" if state == "Stable" else f"{state}"
            yield line(x, y, x, bottom + 4, "rule dashed")
            if state == "Stable" and is_crowded and drawn > 0:
                words = f"{generation}"
            room = len(words) * LETTER
            is_last = self.right - x < room + 4
            begins = x - 3 - room if is_last else x + 3
            if begins - drawn > 8 and begun >= 0:
                kind = "good" if state == "Stable" else "dim"
                yield text(x - 3 if is_last else x + 3, y, words, f"{'end ' * is_last}say {kind}")
                drawn = begins + room

    def _partition(self, y: float, name: str, held: Sequence[tuple[str, str, int, int]]) -> Iterator[Mark]:
        yield text(self.left - 8, y + 4, named(name, self.left - 12), "end say plain")
        yield line(self.left, y, self.right, y, "rule dashed")
        for _, key, began, ended in (each for each in held if each[0] == name):
            x, end = self.x(began), self.x(ended) if ended >= 0 else self.right
            owner = self.names[key]
            title = f"{owner} has {name} from {time_of_day(began)}" + (f" to {time_of_day(ended)}" if ended >= 0 else "")
            yield rect(x, y - 8, max(end - x, 2), 16, f"half {self.colours[owner]}", title, 3)
            if words := named(owner, end - x - 10):
                yield text(x + 6, y + 4, words, "say plain")

    def _member(self, y: float, key: str) -> Iterator[Mark]:
        member, name = self.members[key], self.names[key]
        x, end = self.x(member.seen), self.x(member.left) if member.left >= 0 else self.right
        yield line(x, y, end, y, f"stroke thin {self.colours[name]}")
        yield from self._beats(y, member, self.colours[name])
        drawn: dict[str, float] = {}
        for time, words, kind in member.events:
            if self.began <= time <= self.ended and self.x(time) - drawn.get(kind, -9) >= 2:
                drawn[kind] = self.x(time)
                yield from cross(self.x(time), y, 4, f"stroke thick {kind}") if kind == "bad" else ()
                yield rect(self.x(time) - 2, y - 7, 4, 14, f"fill {kind}", f"{time_of_day(time)}  {name} {words}", 1)

    def _beats(self, y: float, member: Member, colour: str) -> Iterator[Mark]:
        beats = [time for time in member.beats if self.began <= time <= self.ended]
        drawn = -9.0
        for time in beats:
            if self.x(time) - drawn >= 2:
                drawn = self.x(time)
                yield line(drawn, y - 4, drawn, y + 4, f"stroke {colour}")
        pauses = [later - earlier for earlier, later in pairwise(beats)]
        usual = median(pauses) if len(pauses) >= 3 else 0
        last = member.left if member.left >= 0 else self.ended
        for earlier, later in pairwise([*beats, last] if beats else []):
            if usual and later - earlier > max(MISSED * usual, 1000):
                x, wide = self.x(earlier), self.x(later) - self.x(earlier)
                yield rect(
                    x + 1, y - 3, max(wide - 2, 2), 6, "tint boxed bad", f"no heartbeat for {(later - earlier) / 1000:.1f} s"
                )
                words = f"no heartbeat for {(later - earlier) / 1000:.1f} s"
                if len(words) * LETTER < wide - 10:
                    yield text(x + wide / 2, y - 5, words, "middle say bad")

    def _times(self, y: float) -> Iterator[Mark]:
        most = max((self.right - self.left) / 110, 1)
        step = next((each for each in STEPS if (self.ended - self.began) / each <= most), STEPS[-1])
        for time in range(-(-self.began // step) * step, self.ended + 1, step):
            x, clock = self.x(time), time_of_day(time)
            clock = clock[:8] if step >= 1000 else clock
            if self.left + 20 <= x <= self.right - len(clock) * LETTER / 2:
                yield line(x, y - 4, x, y, "rule")
                yield text(x, y + 10, clock, "middle say dim")
        if self.ended - self.began < step:
            yield text(self.left, y + 10, time_of_day(self.began), "say dim")


def _lanes(members: Mapping[str, Member]) -> list[list[str]]:
    """Returns the members of each lane. If a client leaves and joins again, its successive members share a lane."""
    lanes: list[list[str]] = []
    latest: dict[str, list[str]] = {}
    for key in sorted(members, key=lambda key: (members[key].seen, members[key].name)):
        lane = latest.get(members[key].name)
        if lane is not None and 0 <= members[lane[-1]].left <= members[key].seen:
            lane.append(key)
            continue
        latest[members[key].name] = lane = [key]
        lanes.append(lane)
    return lanes
