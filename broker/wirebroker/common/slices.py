"""Divides long work into slices: after each slice, other requests have their turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sized
from functools import lru_cache
from itertools import cycle, islice, repeat
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
End = tuple[None, ...]
"""Long work executes `yield from` with such a tuple after each element. `(None,)` ends the slice; `()` continues it."""
Pause = Callable[[], End]
"""Called for each element of long work: `yield from pause()`. See `pauses`."""

SLICE = 256
"""The number of elements in one slice; an element takes some microseconds."""
IDS = 8
"""The number of ids of groups or transactions in one slice: hashing a very long id takes a millisecond."""
MEMBERS = 32
"""The number of group members in one slice; each has a subscription and an assignment."""
TOPICS = 2048
"""The number of topics or partitions of an assignment in one slice; each takes a microsecond."""
MEMBER = TOPICS // MEMBERS
"""Work on one member of a group takes as long as work on this many topics."""


def pauses(every: int = SLICE) -> Pause:
    """Returns a function to call for each element: `yield from pause()` ends the slice once in `every` calls. If a caller must
    do something before a slice ends, it calls `if pause():` instead, and then yields.
    """
    return cycle(_pattern(every)).__next__


def never() -> End:
    """A `Pause` that never ends a slice."""
    return ()


def weighted_pauses(every: int = TOPICS) -> Callable[[int], End]:
    """Like `pauses`, for elements of different sizes: call `yield from pause(size)` before or after each element."""
    done = 0

    def pause(size: int) -> End:
        nonlocal done
        done += size
        if done < every:
            return ()
        done = 0
        return (None,)

    return pause


def after(done: Sized) -> Generator[None, Any, None]:
    """End the slice if the elements in `done` fill a slice (`TOPICS`): `yield from after(topics)`."""
    if len(done) >= TOPICS:
        yield


@lru_cache
def _pattern(every: int) -> tuple[End, ...]:
    return *repeat((), every - 1), (None,)


def sliced(work: Callable[[list[T]], object], elements: Iterable[T], every: int = SLICE) -> Generator[None, Any, None]:
    """Call `work` with lists of `every` elements, and end a slice after each call."""
    rest = iter(elements)
    while part := list(islice(rest, every)):
        work(part)
        yield


def mapped(make: Callable[[T], R], elements: Iterable[T], pause: Pause) -> Generator[None, Any, list[R]]:
    """Returns the results of `make` for the elements."""
    made = []
    for each in elements:
        yield from pause()
        made.append(make(each))
    return made


def at_once(slices: Generator[Any, Any, T]) -> T:
    """Do the work of all slices without a pause. Returns the result of the work."""
    try:
        while True:
            next(slices)
    except StopIteration as last:
        result: T = last.value
        return result
