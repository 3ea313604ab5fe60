"""The base class of detectors, and a dictionary of limited size for their state by client, group or transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

from wirebroker.common.bounded import Bounded
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


class Known(Bounded[K, V]):
    """A dict with at most `most` keys that makes the value of a missing key. Reading a value by its key counts as a use."""

    def __init__(self, make: Callable[[], V], most: int = MOST) -> None:
        super().__init__(most)
        self._make = make

    def __getitem__(self, key: K) -> V:
        return self.get_or_make(key, self._make)
