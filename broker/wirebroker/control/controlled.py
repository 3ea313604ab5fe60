"""The controlled broker: its host and engine, and how to make a new engine. For the thread of the host's loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from wirebroker.control.problems import Problem
from wirebroker.engine import Engine
from wirebroker.net.host import Host

if TYPE_CHECKING:
    from wirebroker.faults.rules import Rule


class Controlled:
    """A running broker, as the endpoints see it."""

    def __init__(self, host: Host, new_engine: Callable[[], Engine]) -> None:
        self.host = host
        self.at_close: list[Callable[[], None]] = []
        """Called when the broker stops, to wake those who wait."""
        self.closing = False
        self._new_engine = new_engine
        self._numbers: dict[Rule, int] = {}
        self._next = count(1)

    @property
    def engine(self) -> Engine:
        """The engine as it is now; a reset replaces it."""
        return self.host.engine

    @property
    def now(self) -> int:
        """ms since the epoch, by the broker's clock."""
        return self.host.clock.now()

    def changed(self) -> None:
        """Perform the effects of a change, and wake those who wait."""
        self.host.changed()

    def change(self, change: Callable[[int], object]) -> None:
        """Apply a change at this time, and perform its effects. Problem 409 if it raises ValueError."""
        try:
            change(self.now)
        except ValueError as refused:
            raise Problem(409, str(refused)) from None
        self.changed()

    def reset(self) -> None:
        """Close the connections and empty the broker, as after a start. Problem if it has a data directory."""
        if self.engine.store is not None:
            raise Problem(409, f"this broker keeps its data in {self.engine.store.root}, and a reset would delete it")
        self.host.clock.reset()
        self.host.replace(self._new_engine())

    def numbered(self, rules: Sequence[Rule]) -> dict[int, Rule]:
        """The rules by their ids: each rule gets the next number when it is first seen here."""
        self._numbers = {rule: self._numbers.get(rule) or next(self._next) for rule in rules}
        return {number: rule for rule, number in self._numbers.items()}

    async def until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until the condition holds. TimeoutError after `timeout` s, Problem if the broker stops before."""
        await self.host.wait_until(lambda: self.closing or condition(), timeout)
        if self.closing:
            raise Problem(503, "the broker is stopping")

    def close(self) -> None:
        """End all waiting."""
        self.closing = True
        for end in self.at_close:
            end()
        self.host.notify()
