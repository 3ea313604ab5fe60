"""The two kinds of broker clocks.

Both clocks count milliseconds since the epoch. A test can move a clock forward. A clock moves back only when the broker is
reset.
"""

from __future__ import annotations

import time
from typing import Literal


class SystemClock:
    """A clock that runs as fast as the machine's clock. `advance` moves this clock forward. If the machine's clock is adjusted,
    this clock does not change."""

    running = True

    def __init__(self) -> None:
        self.reset()

    def reset(self, to: int | None = None) -> None:
        """Called when the broker is reset. Sets the clock to the time `to`, by default to the machine's time."""
        self._start = (time.time_ns() // 1_000_000 if to is None else to) - time.monotonic_ns() // 1_000_000

    def now(self) -> int:
        """Returns the time in ms since the epoch."""
        return self._start + time.monotonic_ns() // 1_000_000

    def advance(self, ms: int) -> None:
        """Move forward by `ms`. Raises ValueError for a negative step."""
        self._start += _forward(ms)


class FrozenClock:
    """A clock that stands still until `advance` moves it."""

    running = False

    def __init__(self, now: int | None = None) -> None:
        self._began = self._now = time.time_ns() // 1_000_000 if now is None else now

    def reset(self, to: int | None = None) -> None:
        """Called when the broker is reset. Sets the clock to the time `to`, by default to the time at which the clock was
        created."""
        self._now = self._began if to is None else to

    def now(self) -> int:
        """Returns the time in ms since the epoch."""
        return self._now

    def advance(self, ms: int) -> None:
        """Move forward by `ms`. Raises ValueError for a negative step."""
        self._now += _forward(ms)


Clock = SystemClock | FrozenClock
ClockName = Literal["system", "frozen"]
CLOCKS: dict[str, type[Clock]] = {"system": SystemClock, "frozen": FrozenClock}


def _forward(ms: int) -> int:
    if ms < 0:
        raise ValueError(f"a clock cannot move by {ms} ms, because it only moves forward")
    return ms
