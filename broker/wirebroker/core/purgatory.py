"""Timers, and long work in slices, without a clock.

The engine's driver learns from `deadline()` when it has to call `run(now)` next. Each due timer's action gets the time for
which the timer was set, not `now`. So moving the clock forward by eight days has the same effect as waiting for eight days.

Long work that belongs to no request runs in slices (`work`): the driver can stop after some slices, serve requests, and
continue.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

Action = Callable[[int], None]
_TIDY_FROM = 1024
"""Cancelled timers are removed from the heap only when it has more timers than this."""


class Timer:
    """An action that runs at the time `when`, in ms since the epoch, unless the timer is cancelled."""

    __slots__ = ("action", "when")

    def __init__(self, when: int, action: Action) -> None:
        self.when = when
        self.action: Action | None = action

    def cancel(self) -> None:
        """Forget the action. Does nothing if the action has run."""
        self.action = None


class Timers:
    """A heap of timers. Timers with the same due time run in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._tidy_at = _TIDY_FROM
        self._work: deque[Iterator[None]] = deque()
        self.in_slices = False
        """Tells whether long work runs in slices. The driver must then call `run` again while there is work. If `in_slices` is
        False, all slices of a work run in one call."""
        self.runs = False
        """Tells whether `run` is running."""
        self.reached = 0
        """The due time of the timer that ran last."""

    def at(self, when: int, action: Action) -> Timer:
        """Run `action(when)` at the time `when`."""
        timer = Timer(when, action)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        if len(self._heap) > self._tidy_at:
            self._tidy()
        return timer

    def _tidy(self) -> None:
        """Remove cancelled timers. There may be many cancelled timers, because every heartbeat of a session cancels one."""
        self._heap = [entry for entry in self._heap if entry[2].action is not None]
        heapq.heapify(self._heap)
        self._tidy_at = max(_TIDY_FROM, 2 * len(self._heap))

    def every(self, interval: Callable[[], int], start: int, action: Action) -> None:
        """Run `action` periodically; `interval()` is called each time, so that a changed setting takes effect."""

        def again(now: int) -> None:
            try:
                action(now)
            finally:
                self.at(now + max(interval(), 1), again)

        self.at(start + max(interval(), 1), again)

    def work(self, slices: Iterator[None]) -> None:
        """Start long work: an iterator that yields between its slices. The first slice runs now, and `run` runs the others."""
        if next(slices, slices) is None:
            self._work.append(slices)
            if not self.in_slices:
                self._proceed()

    @property
    def busy(self) -> bool:
        """Tells whether there is unfinished work."""
        return bool(self._work)

    def deadline(self) -> int | None:
        """Returns the time at which the next timer is due, or None if there is none. While there is unfinished work, returns
        0."""
        if self._work:
            return 0
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def is_due(self, now: int) -> bool:
        """Tells whether a timer is due."""
        return bool(self._heap) and self._heap[0][0] <= now

    def run(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        """Run the due timers in order, including due timers that a running timer sets.

        Long work that a timer has started runs before later timers. If `enough` is given, timers and slices of work alternate
        until `enough()` is true. The remaining ones wait for the next call.
        """
        self.runs = True
        try:
            while self._work or (self._heap and self._heap[0][0] <= now):
                if self._work:
                    self._proceed()
                if not self._work or enough is not None:
                    self._fire(now)
                if enough is not None and enough():
                    return
        finally:
            self.runs = False

    def _proceed(self) -> None:
        """Run the next slice of the first work in the queue, or all its slices if `in_slices` is False."""
        slices = self._work.popleft()
        for _ in slices:
            if self.in_slices:
                self._work.append(slices)
                return

    def _fire(self, now: int) -> None:
        if self._heap and self._heap[0][0] <= now:
            when, _, timer = heapq.heappop(self._heap)
            action, timer.action = timer.action, None
            if action is not None:
                self.reached = when
                action(when)

    def finish_work(self) -> None:
        """Run all remaining slices of all work now."""
        while self._work:
            for _ in self._work.popleft():
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
        self._heap.clear()
        self._work.clear()
