"""Timers, and long work in slices, without a clock.

The engine's driver learns from `deadline()` when it has to call `run(now)` next. Each due timer's action gets the time for
which the timer was set, not `now`. So moving the clock forward by eight days has the same effect as waiting for eight days.

Periodic work returns the time until which the work has nothing to do, so that a long move of the clock does not run the work
unnecessarily. Timers and work that would never end are held back, and a log message names them.

Long work that belongs to no request runs in slices (`work`): the driver can stop after some slices, serve requests, and
continue.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from itertools import count
from types import GeneratorType
from typing import Any

logger = logging.getLogger("wirebroker")

Action = Callable[[int], object]
NEVER = 2**63 - 1
"""A time that no clock reaches."""
Idle = int | None
"""The result of periodic work is None if the work has changed anything. Otherwise the result is the time before which the work
has nothing to do, unless something else changes. If the work has failed, the result is the present time, and the work is tried
again after its interval."""
PeriodicWork = Callable[[int], Idle | Generator[None, Any, Idle]]
"""A function that does the work; its argument is the present time. For long work, the function is a generator that yields
between slices."""
_TIDY_FROM = 1024
"""Cancelled timers are removed from the heap when the heap has more timers than this."""
MOST_AT_ONCE = 1000
"""A limit against endless timers. A timer may set further timers for the millisecond in which it runs. In one millisecond, at
most this many further timers may run for each timer that was set earlier."""
MOST_AGAIN = 50_000
"""During one move of the clock, the timers of one name may set themselves again at most this many times. Periodic work may
change something or fail at most this many times."""
MOST_SLICES = 1_000_000
"""The largest number of slices of one work. A slice takes about a millisecond."""
PAUSE_MS = 1000
"""A timer that exceeds a limit is due this many ms after the time to which the clock is moved."""


class Timer:
    """An action that runs at the time `when`, in ms since the epoch, unless the timer is cancelled."""

    __slots__ = ("action", "when")

    def __init__(self, when: int, action: Action) -> None:
        self.when = when
        self.action: Action | None = action

    def cancel(self) -> None:
        """Forget the action. Does nothing if the action has run."""
        self.action = None


class _AtOnce(Timer):
    """A timer that was set by another timer, and was already due when it was set."""

    __slots__ = ()


class _Tick(Timer):
    """The timer for the next time at which periodic work begins. The work counts as a change only if its result says so."""

    __slots__ = ()


class _Work:
    """Long work that has begun."""

    __slots__ = ("changes", "count", "slices")

    def __init__(self, slices: Iterator[None], changes: bool) -> None:
        self.slices = slices
        self.changes = changes
        """Tells whether each slice counts as a change. This is False for periodic work, because only its result tells whether
        it has changed something."""
        self.count = 0

    def proceed(self) -> bool:
        """Run the next slice. Returns False if the work is done."""
        self.count += 1
        if self.count <= MOST_SLICES:
            return next(self.slices, self) is None
        logger.error("%s is stopped: it has not ended after %d slices", name_of(self.slices), MOST_SLICES)
        if isinstance(self.slices, GeneratorType):
            self.slices.close()
        return False


class Periodic:
    """Work that begins once in each interval. While the work has nothing to do, it rests until something has changed, or until
    the end of the run. A rest does not shift the times at which the work begins."""

    def __init__(self, timers: Timers, interval: Callable[[], int], task: PeriodicWork) -> None:
        self._timers, self._interval, self._task = timers, interval, task
        self._tick = Timer(0, self._begin)

    def plan(self, now: int, first: int | None = None) -> None:
        """Begin the work after an interval, or at the time `first`."""
        self._step = max(self._interval(), 1)
        self._set(now + self._step if first is None else first)

    def cancel(self) -> None:
        """Never begin the work again."""
        self._timers.resting.pop(self, None)
        self._tick.cancel()

    def _set(self, when: int) -> None:
        self._tick = self._timers.add(_Tick(when, self._begin))

    def _begin(self, now: int) -> None:
        changes = self._timers.changes
        self._timers.resting.pop(self, None)
        self.plan(now)
        done = self._task(now)
        if isinstance(done, GeneratorType):
            self._timers.work(self._worked(done, changes), changes=False)
        else:
            self._ended(done, changes)  # type: ignore[arg-type]

    def _worked(self, slices: Generator[None, Any, Idle], changes: int) -> Iterator[None]:
        self._ended((yield from slices), changes)

    def _ended(self, idle: Idle, changes: int) -> None:
        timers = self._timers
        if idle is None:
            timers.changed()
        failed = idle is not None and idle <= timers.reached
        if (idle is None or failed) and timers.repeats_too_often(name_of(self._task)):
            self._rest(NEVER)
        elif idle is not None and changes == timers.changes:
            self._rest(idle)

    def _rest(self, until: int) -> None:
        timers, tick = self._timers, self._tick
        if tick.action is not None and tick.when < until and tick.when <= timers.horizon:
            tick.cancel()
            self._due = tick.when
            if until <= timers.horizon:
                self._set(self._from(until))
            timers.resting[self] = None

    def _from(self, when: int) -> int:
        """Returns the first time at or after `when` at which the work may begin."""
        return self._due + max(-((self._due - when) // self._step), 0) * self._step

    def wake(self, when: int) -> None:
        """End the pause of the work: begin at the first possible time at or after `when`."""
        self._tick.cancel()
        self._set(self._from(when))


class Timers:
    """A heap of timers. Timers with the same due time run in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._tidy_at = _TIDY_FROM
        self._work: deque[_Work] = deque()
        self.in_slices = False
        """Tells whether long work runs in slices. The driver must then call `run` again while there is work. If `in_slices` is
        False, all slices of a work run in one call."""
        self.runs = False
        """Tells whether `run` is running."""
        self.horizon = -1
        """The time to which the present run goes, or −1 between runs."""
        self.reached = 0
        """The due time of the timer that ran last."""
        self._moves = False
        """Tells whether the clock is being moved; see `begin_move`."""
        self.is_quiet = True
        """A caller can set this to True before some runs. If it is False after these runs, something has changed in them."""
        self.changes = 0
        """This number rises whenever a timer, long work, or the requests before a run may have changed something."""
        self.resting: dict[Periodic, None] = {}
        """The periodic work that rests until something changes or the run ends."""
        self._name = ""
        """The name of the timer that is running."""
        self._again: Counter[str] = Counter()
        self._fired, self._fired_at_once = 0, 0
        """How many timers have run at the last due time: first the number of those that were set earlier, then the number of
        those that were set at that time."""

    def at(self, when: int, action: Action) -> Timer:
        """Run `action(when)` at the time `when`."""
        if self.runs:
            return self._set_by_timer(when, action)
        timer = Timer(when, action)  # the same as `add`, without a call
        heapq.heappush(self._heap, (when, next(self._order), timer))
        if len(self._heap) > self._tidy_at:
            self._tidy()
        return timer

    def add(self, timer: Timer) -> Timer:
        heapq.heappush(self._heap, (timer.when, next(self._order), timer))
        if len(self._heap) > self._tidy_at:
            self._tidy()
        return timer

    def _set_by_timer(self, when: int, action: Action) -> Timer:
        name = name_of(action)
        if name == self._name and self.repeats_too_often(name):
            when = max(when, self.horizon + PAUSE_MS)
        return self.add(_AtOnce(when, action) if when <= self.reached else Timer(when, action))

    def _tidy(self) -> None:
        """Remove cancelled timers. There may be many cancelled timers, because every heartbeat of a session cancels a timer."""
        self._heap = [entry for entry in self._heap if entry[2].action is not None]
        heapq.heapify(self._heap)
        self._tidy_at = max(_TIDY_FROM, 2 * len(self._heap))

    def every(self, interval: Callable[[], int], start: int, task: PeriodicWork, first: int | None = None) -> Periodic:
        """Begin `task` periodically, for the first time after an interval or at the time `first`. `interval()` is called each
        time, so that a changed setting takes effect."""
        made = Periodic(self, interval, task)
        made.plan(start, first)
        return made

    def work(self, slices: Iterator[None], *, changes: bool = True) -> None:
        """Start long work: an iterator that yields between its slices. The first slice runs now, and `run` runs the other
        slices. With `changes`, each slice counts as a change."""
        work = _Work(slices, changes)
        if work.proceed():
            self._work.append(work)
            if not self.in_slices:
                self._proceed()

    @property
    def busy(self) -> bool:
        """Tells whether there is unfinished work."""
        return bool(self._work)

    def deadline(self) -> int | None:
        """Returns the time at which the next timer is due, or None if there are no timers. While there is unfinished work,
        returns 0."""
        if self._work:
            return 0
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def is_due(self, now: int) -> bool:
        return bool(self._heap) and self._heap[0][0] <= now

    def begin_move(self) -> None:
        """Begin a move of the clock, which consists of several calls of `run`. The limit MOST_AGAIN, which otherwise applies to
        one call, applies to the whole move. In these calls, work always ends before later timers run."""
        self._again.clear()
        self._moves = True

    def end_move(self) -> None:
        """End the move of the clock."""
        self._moves = False

    def run(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        """Run the due timers in order, including due timers that a running timer sets.

        Long work that a timer has started runs before later timers. If `enough` is given, the run stops when `enough()` is
        true, and the remaining timers and slices wait for the next call. With `enough`, timers and slices of work alternate, so
        that a timer does not have to wait for the work.
        """
        alternates = enough is not None and not self._moves
        self.runs, self.horizon = True, now
        self.changes += 1
        if not self._moves:
            self._again.clear()
        ended = False
        try:
            while self._work or (self._heap and self._heap[0][0] <= now):
                if self._work:
                    self._proceed()
                if not self._work or alternates:
                    self._fire(now)
                if enough is not None and enough():
                    return
            ended = True
        finally:
            self.runs, self.horizon, self._name = False, -1, ""
            self._wake(now + 1 if ended else self.reached)

    def changed(self) -> None:
        """Register that something has changed, so that resting work may have something to do."""
        self.changes += 1
        self.is_quiet = False
        self._wake(self.reached)

    def _wake(self, when: int) -> None:
        if self.resting:
            resting, self.resting = self.resting, {}
            for each in resting:
                each.wake(when)

    def _proceed(self) -> None:
        """Run the next slice of the first work in the queue, or all its slices if `in_slices` is False."""
        work = self._work.popleft()
        if work.changes:
            self.changed()
        while work.proceed():
            if self.in_slices:
                self._work.append(work)
                return

    def _fire(self, now: int) -> None:
        if not self._heap or self._heap[0][0] > now:
            return
        when, _, timer = heapq.heappop(self._heap)
        action, timer.action = timer.action, None
        if action is None:
            return
        if when > self.reached:
            self._fired = self._fired_at_once = 0
        if type(timer) is not _AtOnce:
            self._fired += 1
        elif self._fired_at_once < MOST_AT_ONCE * (1 + self._fired):
            self._fired_at_once += 1
        else:
            self._hold_back(timer, action)
            return
        self.reached = when
        self._name = name_of(action)
        if type(timer) is not _Tick:
            self.changed()
        action(when)

    def _hold_back(self, timer: Timer, action: Action) -> None:
        if self._fired_at_once == MOST_AT_ONCE * (1 + self._fired):
            self._fired_at_once += 1
            logger.error("%s waits: timers set %d timers for the same millisecond", name_of(action), self._fired_at_once)
        timer.when, timer.action = self.horizon + PAUSE_MS, action
        self.add(timer)

    def repeats_too_often(self, name: str) -> bool:
        """Count how often the timer `name` has set itself again. Returns True if the timer has done so more than MOST_AGAIN
        times in one run, or in one move of the clock."""
        self._again[name] += 1
        if self._again[name] == MOST_AGAIN + 1:
            logger.error("%s waits: it has run %d times while the clock moved, and does not end", name, MOST_AGAIN)
        return self._again[name] > MOST_AGAIN

    def finish_work(self) -> None:
        """Run all remaining slices of all work now."""
        while self._work:
            work = self._work.popleft()
            while work.proceed():
                pass

    def move(self, ms: int) -> None:
        """The clock was moved by `ms` (negative if it was moved back). Move all timers by `ms`, so that they keep their
        remaining time."""
        for _, _, timer in self._heap:
            timer.when += ms
        self._heap = [(when + ms, order, timer) for when, order, timer in self._heap]
        self.reached += ms

    def clear(self) -> None:
        """Forget everything."""
        for _, _, timer in self._heap:
            timer.cancel()  # so that running periodic work does not set the timer again
        self._heap.clear()
        self._work.clear()
        self.resting.clear()


def name_of(action: object) -> str:
    """Returns the name of a function or generator, for the log."""
    action = getattr(action, "func", action)  # the function of a `partial`
    return getattr(action, "__qualname__", type(action).__name__)
