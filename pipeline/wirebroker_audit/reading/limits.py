"""Finds where the batches in a buffer begin and end, and computes a digest of each batch.

The loops run compiled if the wheel has machine code. Buffers are `bytes`, because compiled code reads `bytes` without a
function call. Compiled modules do not import NumPy, because it is not installed where they are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkawire.batches import HEADER_SIZE, LENGTH_START, LOG_OVERHEAD

if TYPE_CHECKING:
    from mypy_extensions import i64

LEAST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC_AT: Final = 16
MAGIC: Final = 2


def batch_limits(data: bytes, pos: i64, last_header: i64, most: i64) -> list[int]:
    """Returns the positions where batches begin, according to the lengths in their headers. The last entry is the position
    where the last whole batch ends."""
    limits: list[int] = [pos]
    at: i64 = pos
    count: i64 = 0
    while at <= last_header and count < most:
        begin: i64 = at + LENGTH_START
        length: i64 = data[begin] << 24 | data[begin + 1] << 16 | data[begin + 2] << 8 | data[begin + 3]
        if length < LEAST_LENGTH or data[at + MAGIC_AT] != MAGIC:
            break
        at += LOG_OVERHEAD + length  # a negative length is read as a large number, which leads beyond the end
        limits.append(at)
        count += 1
    if at > len(data):
        limits.pop()
    return limits


def of_each(digest: Callable[[bytes], int], data: bytes, limits: list[int], after: i64) -> list[int]:
    """Returns the digest of each batch without its first `after` bytes."""
    found: list[int] = []
    begin: i64 = -1
    for limit in limits:
        end: i64 = limit
        if begin >= 0:
            found.append(digest(data[begin + after : end]))
        begin = end
    return found
