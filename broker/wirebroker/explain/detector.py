"""The base class of detectors, and a memory of bounded size for what a detector follows: clients, groups, transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

from wirebroker.explain.findings import Finding
from wirebroker.trace.rows import Row

K = TypeVar("K")
V = TypeVar("V")
MOST = 2000
"""The most clients, groups or connections that a detector follows. Beyond that it forgets the least recently seen."""


class Detector(ABC):
    """Looks for findings of one kind. It takes rows in the order of the trace."""

    events: ClassVar[tuple[str, ...]] = ()
    """The detector takes only rows of these events."""

    @abstractmethod
    def take(self, number: int, row: Row) -> None:
        """Take a row; `number` is its number in the trace."""

    @abstractmethod
    def findings(self, now: int) -> Iterator[Finding]:
        """Yields the findings as of `now`, in ms since the epoch. Call it at any time and as often as you like."""

    def begin_run(self) -> None:  # noqa: B027 - most detectors do not follow connections
        """Another run begins, in which the numbers of connections start again."""


class Known(Generic[K, V]):
    """At most `most` states by key; the least recently used state is forgotten first."""

    def __init__(self, make: Callable[[], V], most: int = MOST) -> None:
        self._make, self._most = make, most
        self._states: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        """Returns the state of a key, and makes it if it is missing."""
        state = self._states.get(key)
        if state is None:
            state = self._make()
            self.put(key, state)
        else:
            self._states.move_to_end(key)
        return state

    def put(self, key: K, state: V) -> None:
        """Keep this state for a key."""
        self._states[key] = state
        self._states.move_to_end(key)
        if len(self._states) > self._most:
            self._states.popitem(last=False)

    def get(self, key: K) -> V | None:
        """Returns the state of a key, or None."""
        return self._states.get(key)

    def pop(self, key: K) -> V | None:
        """Forget a key. Returns its state, or None."""
        return self._states.pop(key, None)

    def values(self) -> Iterator[V]:
        """The states."""
        yield from list(self._states.values())

    def items(self) -> Iterator[tuple[K, V]]:
        """Yields the keys and their states, the least recently used first."""
        yield from list(self._states.items())
