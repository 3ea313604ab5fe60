"""What the cluster decides is written down before anybody is told of it, or it is taken back.

Kafka's controller stops when its log cannot be written. Here the request that wants the change is refused, and everybody
else goes on. What cannot be taken back, as who leads, is written down as soon as that can be.
"""

from __future__ import annotations

from collections.abc import Callable

from wirebroker.core.coordinator_errors import RETRY_MS
from wirebroker.core.purgatory import Timers

Versions = tuple[int, int, int]


class Decisions:
    """The changes of the metadata that are not written down yet. `versions` rise with every change."""

    def __init__(self, timers: Timers, versions: Callable[[], Versions]) -> None:
        self._timers = timers
        self._versions = versions
        self._write: Callable[[int], None] | None = None
        self._settled: Versions | None = None
        self._given_up: Versions | None = None
        """The versions at which writing has failed. Only a further change, or the timer, tries again."""
        self._waiting = False
        self._made: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def write_with(self, write: Callable[[int], None]) -> None:
        """From now on changes are written down by this, which raises OSError. In memory there is nothing to write."""
        self._write = write
        self._settled = self._given_up = None
        self._waiting = False

    def made(self, undo: Callable[[], None], done: Callable[[], None]) -> None:
        """Something was changed: `undo` takes it back, `done` is what follows once it is written down."""
        if self._write is None:
            done()
        else:
            self._made.append((undo, done))

    @property
    def unsettled(self) -> bool:
        """Whether something has changed that is not written down, and nobody has been refused for it."""
        return self._write is not None and self._versions() not in (self._settled, self._given_up)

    def settle(self, now: int) -> OSError | None:
        """Write down what has changed; if that fails, why, and then all that can be taken back is taken back."""
        if not self.unsettled or self._write is None:
            return None
        made, self._made = self._made, []
        versions = self._versions()
        try:
            self._write(now)
        except OSError as failed:
            for undo, _ in reversed(made):
                undo()
            self._given_up = self._versions()
            self._try_again(now)
            return failed
        self._settled = versions
        for _, done in made:
            done()
        return None

    def _try_again(self, now: int) -> None:
        if not self._waiting:
            self._waiting = True
            self._timers.at(now + RETRY_MS, self._again)

    def _again(self, now: int) -> None:
        self._waiting = False
        self._given_up = None
        self.settle(now)
