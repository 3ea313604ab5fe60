"""Things that wait: timers in the order in which they fall due.

Nothing here knows what time it is. Whoever drives the engine asks `deadline()` when to come back, and says with
`run(now)` how late it has become; each timer that fell due runs with the moment it was set for, so that an advance of
eight days at once is no different from eight days passing.

Work that is not anybody's request and takes long is done in slices too (`work`), so that a driver can stop after some of
it and serve others before it goes on.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

Action = Callable[[int], None]
_TIDY_FROM = 1024
"""Timers from which on it is worth looking for cancelled ones."""


class Timer:
    """One pending action; `cancel()` makes it never run. `when` is in ms since the epoch."""

    __slots__ = ("action", "when")

    def __init__(self, when: int, action: Action) -> None:
        self.when = when
        self.action: Action | None = action

    def cancel(self) -> None:
        """Forget the action; harmless if it has run."""
        self.action = None


class Timers:
    """A heap of timers; those set for the same moment run in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._tidy_at = _TIDY_FROM
        self._work: deque[Iterator[None]] = deque()
        self.in_slices = False
        """Whether the driver calls `run` again while there is work; else all of it is done at once."""
        self.reached = 0
        """The moment that the latest timer to run was set for."""

    def at(self, when: int, action: Action) -> Timer:
        """Run `action(when)` once it is `when`."""
        timer = Timer(when, action)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        if len(self._heap) > self._tidy_at:
            self._tidy()
        return timer

    def _tidy(self) -> None:
        """Drop what was cancelled: a session that is kept alive cancels one timer with every heartbeat."""
        self._heap = [entry for entry in self._heap if entry[2].action is not None]
        heapq.heapify(self._heap)
        self._tidy_at = max(_TIDY_FROM, 2 * len(self._heap))

    def every(self, interval: Callable[[], int], start: int, action: Action) -> None:
        """Run `action` again and again; `interval()` is asked each time, so that a changed setting is followed."""

        def again(now: int) -> None:
            try:
                action(now)
            finally:
                self.at(now + max(interval(), 1), again)

        self.at(start + max(interval(), 1), again)

    def work(self, slices: Iterator[None]) -> None:
        """Do long work, an iterator that yields between its slices: the first now, the others when `run` comes to them."""
        if next(slices, slices) is None:
            self._work.append(slices)
            if not self.in_slices:
                self._proceed()

    @property
    def busy(self) -> bool:
        """Whether there is work to go on with, whatever the time."""
        return bool(self._work)

    def deadline(self) -> int | None:
        """When the next timer falls due, or None; 0 while there is work to go on with."""
        if self._work:
            return 0
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        """Run what has fallen due, in order; timers that these set in turn run too if they are due.

        Work is done before the timers that follow it. Where `enough` is given, timers and slices of work take turns, and it
        ends once that is true; what is left waits for the next call.
        """
        while self._work or (self._heap and self._heap[0][0] <= now):
            if self._work:
                self._proceed()
            if not self._work or enough is not None:
                self._fire(now)
            if enough is not None and enough():
                return

    def _proceed(self) -> None:
        """A slice of the work whose turn it is, or all of it if there are no slices."""
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

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._work.clear()
