"""The form of a detector, and a memory of bounded size for those that follow clients, groups or transactions."""

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
"""Clients, groups, connections and so on that a detector follows. It forgets those that it has not seen for longest."""


class Detector(ABC):
    """Looks for findings of one kind in rows, which come in the order of the trace."""

    events: ClassVar[tuple[str, ...]] = ()
    """The events whose rows it takes."""

    @abstractmethod
    def take(self, number: int, row: Row) -> None:
        """Take a row; `number` is its number in the trace."""

    @abstractmethod
    def findings(self, now: int) -> Iterator[Finding]:
        """What is wrong as of `now`, in ms since the epoch. May be asked at any time, and again."""

    def begin_run(self) -> None:  # noqa: B027 - most detectors do not follow connections
        """Another run begins: numbers of connections begin again."""


class Known(Generic[K, V]):
    """States by key, at most `most` of them."""

    def __init__(self, make: Callable[[], V], most: int = MOST) -> None:
        self._make, self._most = make, most
        self._states: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        """The state of a key, which is made if there is none."""
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
        """The state of a key, or None."""
        return self._states.get(key)

    def pop(self, key: K) -> V | None:
        """Forget a key. Returns its state, or None."""
        return self._states.pop(key, None)

    def values(self) -> Iterator[V]:
        """The states."""
        yield from list(self._states.values())

    def items(self) -> Iterator[tuple[K, V]]:
        """The keys and their states, those that were not seen for longest first."""
        yield from list(self._states.items())
