"""Finds the parts of a response: one part for each partition, group, coordinator or other thing in the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
LEVELS = (
    "responses", "partition_responses", "topics", "partitions", "coordinators", "groups", "results",
    "results_by_topic_v3_and_below", "results_by_partition",
)  # fmt: skip
"""The names of arrays that have an element for each thing in the request."""


def parts(response: Any) -> list[Any]:
    """Returns the elements of the innermost array named in `LEVELS`. If the response has no such array, returns the response
    itself."""
    levels = [getattr(response, name) for name in LEVELS if hasattr(response, name)]
    if not levels:
        return [response]
    return [part for element in next(filter(None, levels), ()) for part in parts(element)]


def only(response: Any) -> Any:
    """Returns the only part of a response. Raises AssertionError if the response has no part or several parts."""
    return sole(parts(response))


def sole(items: Sequence[T]) -> T:
    """Returns the only item. Raises AssertionError if there is no item or more than one."""
    assert len(items) == 1, f"expected one item, got {items!r}"
    return items[0]
