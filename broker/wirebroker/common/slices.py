"""Divides long work into slices: after a number of elements, other requests have their turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sized
from functools import lru_cache
from itertools import cycle, islice, repeat
from typing import Any, TypeVar

T = TypeVar("T")

SLICE = 256
"""The number of elements in one slice; an element takes some microseconds."""
IDS = 8
"""The number of ids of groups or transactions in one slice: hashing a very long id takes a millisecond."""
MEMBERS = 32
"""The number of members of groups in one slice, with their subscriptions and assignments."""
TOPICS = 2048
"""The number of topics or partitions of an assignment in one slice; each takes a microsecond."""
MEMBER = TOPICS // MEMBERS
"""A member of a group takes as long as this number of topics."""


def pauses(every: int = SLICE) -> Callable[[], bool]:
    """Returns a function to call for each element. It returns True once in `every` calls: `if pause(): yield None` ends a
    slice.
    """
    return cycle(_pattern(every)).__next__


def weighted_pauses(every: int = TOPICS) -> Callable[[int], bool]:
    """Returns such a function for elements of different sizes: `if pause(size): yield None`, before or after an element."""
    done = 0

    def pause(size: int) -> bool:
        nonlocal done
        done += size
        if done < every:
            return False
        done = 0
        return True

    return pause


def after(done: Sized) -> Generator[None, Any, None]:
    """End the slice after this number of elements: `yield from after(topics)`."""
    if len(done) >= TOPICS:
        yield


@lru_cache
def _pattern(every: int) -> tuple[bool, ...]:
    return *repeat(False, every - 1), True


def sliced(work: Callable[[list[T]], object], elements: Iterable[T], every: int = SLICE) -> Generator[None, Any, None]:
    """Do work that takes a list of elements, with a slice for each `every` elements."""
    rest = iter(elements)
    while part := list(islice(rest, every)):
        work(part)
        yield


def at_once(slices: Generator[Any, Any, T]) -> T:
    """The result of the work, done without a pause."""
    try:
        while True:
            next(slices)
    except StopIteration as last:
        result: T = last.value
        return result
