"""The base class of detectors, and a dictionary of limited size for their state by client, group or transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

from wirebroker.trace.rows import Row
from wirebroker_tools.explain.findings import Finding

K = TypeVar("K")
V = TypeVar("V")
MOST = 2000
"""A detector follows at most this many clients, groups or connections. If there are more, the detector forgets the item that no
row has mentioned for the longest time."""


class Detector(ABC):
    """Looks for findings of one kind. A detector gets rows in the order of the trace."""

    events: ClassVar[tuple[str, ...]] = ()
    """The events whose rows the detector gets."""

    @abstractmethod
    def take(self, number: int, row: Row) -> None:
        """Take a row. `number` is the row's number in the trace."""

    @abstractmethod
    def findings(self, now: int) -> Iterator[Finding]:
        """Yields the findings at the time `now`, in ms since the epoch. This method may be called at any time, and
        repeatedly."""

    def begin_run(self) -> None:  # noqa: B027 - most detectors do not follow connections
        """Handle the beginning of another run of the broker or proxy. In each run the numbers of connections start again at
        1."""


class Known(Generic[K, V]):
    """A dictionary with at most `most` keys. If there are more, the least recently used key is removed."""

    def __init__(self, make: Callable[[], V], most: int = MOST) -> None:
        self._make, self._most = make, most
        self._states: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        """Returns the state of a key. Creates the state if the key is unknown."""
        state = self._states.get(key)
        if state is None:
            state = self._make()
            self.put(key, state)
        else:
            self._states.move_to_end(key)
        return state

    def put(self, key: K, state: V) -> None:
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
        """Yields the states."""
        yield from list(self._states.values())

    def items(self) -> Iterator[tuple[K, V]]:
        """Yields the keys and their states, the least recently used first."""
        yield from list(self._states.items())
