"""Long work is done in slices: after so many elements others have their turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from itertools import cycle, repeat
from typing import Any, TypeVar

T = TypeVar("T")

SLICE = 256
"""Elements that are dealt with in one slice; an element takes some microseconds."""
IDS = 8
"""Elements in a slice (see `SLICE`) where they are ids of groups and transactions: hashing a very long one takes a ms."""
MEMBERS = 32
"""The same for members of groups, each with what it subscribes to and what it is assigned."""


def pauses(every: int = SLICE) -> Callable[[], bool]:
    """A function to call for each element: true for one in `every` of them. `if pause(): yield None` makes a slice."""
    return cycle(_pattern(every)).__next__


@lru_cache
def _pattern(every: int) -> tuple[bool, ...]:
    return *repeat(False, every - 1), True


def at_once(slices: Generator[Any, Any, T]) -> T:
    """What the work comes to, done without a pause."""
    try:
        while True:
            next(slices)
    except StopIteration as last:
        result: T = last.value
        return result
