"""A dict of limited size, and names of limited length. Both limits are needed because clients may send any number of names of
any length."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, ValuesView
from typing import Generic, TypeVar

LONGEST = 1_000
"""A longer name is cut to this many characters."""
K = TypeVar("K")
V = TypeVar("V")


def cut(name: str) -> str:
    """Returns the name, cut if it is too long."""
    return name if len(name) <= LONGEST else name[:LONGEST] + "…"


class Bounded(Generic[K, V]):
    """A dict of at most `most` entries. The least recently used entry is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def values(self) -> ValuesView[V]:
        """Returns the values. The most recently used value is the last."""
        return self._entries.values()

    def get(self, key: K) -> V | None:
        """Returns the value of a key, or None. This method does not count as a use of the entry."""
        return self._entries.get(key)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Returns the value of a key. If the key is missing, the value is created by `make()`."""
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = make()
            self.shrink(self._most)
        else:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        self.shrink(self._most)

    def pop(self, key: K) -> V | None:
        """Forget an entry."""
        return self._entries.pop(key, None)

    def shrink(self, most: int) -> None:
        """Forget entries until this many remain."""
        while len(self._entries) > most:
            self._entries.popitem(last=False)
