"""Memory with a limit for what clients name: they may invent as many names as they like, and as long ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, ValuesView
from typing import Generic, TypeVar

LONGEST = 1_000
"""The characters that are kept of a name."""
K = TypeVar("K")
V = TypeVar("V")


def cut(name: str) -> str:
    """The beginning of a name."""
    return name if len(name) <= LONGEST else name[:LONGEST] + "…"


class Bounded(Generic[K, V]):
    """A dict of at most `most` entries. The entry that was used least recently makes way."""

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
        """The values, the one that was used last at the end."""
        return self._entries.values()

    def get(self, key: K) -> V | None:
        """A value, without using it."""
        return self._entries.get(key)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value, which is made if there is none."""
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = make()
            self.shrink(self._most)
        else:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Set a value."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        self.shrink(self._most)

    def pop(self, key: K) -> V | None:
        """Forget an entry."""
        return self._entries.pop(key, None)

    def shrink(self, most: int) -> None:
        """Forget the entries beyond so many."""
        while len(self._entries) > most:
            self._entries.popitem(last=False)
