"""The elements of a response: one for each partition, group, coordinator or other thing in the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
LEVELS = (
    "responses", "partition_responses", "topics", "partitions", "coordinators", "groups", "results",
    "results_by_topic_v3_and_below", "results_by_partition",
)  # fmt: skip
"""The arrays with an element for each thing in the request."""


def parts(response: Any) -> list[Any]:
    """The innermost elements of these arrays; the response itself if it has no such arrays."""
    levels = [getattr(response, name) for name in LEVELS if hasattr(response, name)]
    if not levels:
        return [response]
    return [part for element in next(filter(None, levels), ()) for part in parts(element)]


def only(response: Any) -> Any:
    """The one part. Raises AssertionError if there are none or several."""
    return sole(parts(response))


def sole(items: Sequence[T]) -> T:
    """The one item. Raises AssertionError if there are none or several."""
    assert len(items) == 1, f"expected one item, got {items!r}"
    return items[0]
