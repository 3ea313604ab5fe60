"""What the tasks of Spark are given to do, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def packed(work: Iterable[tuple[int, T]], room: int) -> Iterator[list[T]]:
    """Pieces of work side by side, each given with its size, so that together they have at most about this size."""
    held: list[T] = []
    filled = 0
    for size, each in work:
        if held and filled + size > room:
            yield held
            held, filled = [], 0
        held.append(each)
        filled += size
    if held:
        yield held
