"""Switches on an expensive measurement while somebody reads its results."""

from __future__ import annotations

from collections.abc import Callable

from wirebroker.core.purgatory import Timers


class Interest:
    """A switch that is on from the first `renew` until `ms` after the last one. Calls `changed` when it switches on or off."""

    def __init__(self, timers: Timers, ms: int, changed: Callable[[], None]) -> None:
        self.on = False
        self._timers, self._ms, self._changed = timers, ms, changed
        self._last = 0

    def renew(self, now: int) -> None:
        """Somebody looks."""
        self._last = now
        if not self.on:
            self.on = True
            self._changed()
            self._timers.at(now + self._ms, self._end)

    def _end(self, now: int) -> None:
        until = self._last + self._ms
        if now < until:
            self._timers.at(until, self._end)
        else:
            self.on = False
            self._changed()
