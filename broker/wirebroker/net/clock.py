"""A broker's clock: the only module beside `net` that reads the machine's time.

Both clocks count milliseconds since the epoch. A test can move them forward, but never back, except to begin again.
"""

from __future__ import annotations

import time
from typing import Literal


class SystemClock:
    """Time passes as usual; `advance` moves it further forward. Steps of the machine's own clock have no effect."""

    running = True

    def __init__(self) -> None:
        self.reset()

    def reset(self, to: int | None = None) -> None:
        """Set the clock to this time, or to the machine's time, for a broker that begins again."""
        self._start = (time.time_ns() // 1_000_000 if to is None else to) - time.monotonic_ns() // 1_000_000

    def now(self) -> int:
        """ms since the epoch."""
        return self._start + time.monotonic_ns() // 1_000_000

    def advance(self, ms: int) -> None:
        """Move forward by `ms`. Raises ValueError for a negative step."""
        self._start += _forward(ms)


class FrozenClock:
    """Time stands still until `advance` moves it."""

    running = False

    def __init__(self, now: int | None = None) -> None:
        self._began = self._now = time.time_ns() // 1_000_000 if now is None else now

    def reset(self, to: int | None = None) -> None:
        """Set the clock to this time, or to the time of its creation, for a broker that begins again."""
        self._now = self._began if to is None else to

    def now(self) -> int:
        """ms since the epoch."""
        return self._now

    def advance(self, ms: int) -> None:
        """Move forward by `ms`. Raises ValueError for a negative step."""
        self._now += _forward(ms)


Clock = SystemClock | FrozenClock
ClockName = Literal["system", "frozen"]
CLOCKS: dict[str, type[Clock]] = {"system": SystemClock, "frozen": FrozenClock}


def _forward(ms: int) -> int:
    if ms < 0:
        raise ValueError(f"a clock only moves forward, not by {ms} ms")
    return ms
