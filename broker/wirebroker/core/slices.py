"""Long work is done in slices: after so many elements others have their turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, repeat

SLICE = 256
"""Elements that are dealt with in one slice; an element takes some microseconds."""


def pauses(every: int = SLICE) -> Callable[[], bool]:
    """A function to call for each element: true for one in `every` of them. `if pause(): yield None` makes a slice."""
    return cycle([*repeat(False, every - 1), True]).__next__
