"""Packing pieces of work into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def packed(work: Iterable[tuple[int, T]], room: int) -> Iterator[list[T]]:
    """Groups of successive pieces of work, each group of at most about this size; each piece comes with its size."""
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
