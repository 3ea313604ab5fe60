"""A switch for an expensive measurement, which runs only while its results are read."""

from __future__ import annotations

from collections.abc import Callable

from wirebroker.core.purgatory import Timers


class Interest:
    """A switch that `renew` turns on. `ms` milliseconds after the last `renew`, the switch turns itself off. Whenever the
    switch goes on or off, it calls `changed`."""

    def __init__(self, timers: Timers, ms: int, changed: Callable[[], None]) -> None:
        self.on = False
        self._timers, self._ms, self._changed = timers, ms, changed
        self._last = 0

    def renew(self, now: int) -> None:
        """Turn the switch on, or keep it on, because the results are read now."""
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
