"""A dict of limited size, and names of limited length. Both limits are needed because clients may send any number of names of
any length."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

LONGEST = 1_000
"""A longer name is cut to this many characters."""
K = TypeVar("K")
V = TypeVar("V")


def cut(name: str) -> str:
    """Returns the name, cut if it is too long."""
    return name if len(name) <= LONGEST else name[:LONGEST] + "…"


class Bounded(OrderedDict[K, V]):
    """A dict of at most `most` entries. The least recently used entry is dropped first. Only `put` and `get_or_make` count as a
    use, and keep the limit."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Returns the value of a key. If the key is missing, the value is created by `make()`."""
        found = self.get(key)
        if found is None:
            found = make()
        self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
