"""Things that wait: timers in the order in which they fall due.

Nothing here knows what time it is. Whoever drives the engine asks `deadline()` when to come back, and says with
`run(now)` how late it has become; each timer that fell due runs with the moment it was set for, so that an advance of
eight days at once is no different from eight days passing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
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
        self.reached = 0
        """The moment that the latest timer to run was set for."""
        self.late = 0
        """How late it was when timers were last run. A timer that is set for later than this waits for the next time."""

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

    def deadline(self) -> int | None:
        """When the next timer falls due, or None."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now: int) -> None:
        """Run what has fallen due, in order; timers that these set in turn run too if they are due."""
        self.late = max(self.late, now)
        while self._heap and self._heap[0][0] <= now:
            when, _, timer = heapq.heappop(self._heap)
            action, timer.action = timer.action, None
            if action is not None:
                self.reached = when
                action(when)

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
