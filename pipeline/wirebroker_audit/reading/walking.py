"""Walks from batch to batch in a buffer and computes their checksums and hashes, without Arrow.

The loops run compiled where the wheel has machine code; `bytes` is what compiled code reads without a call.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import maxsize
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from crc32c import crc32c
from xxhash import xxh3_64_intdigest

from kafkawire.batches import CRC_START, HEADER_SIZE, LENGTH_START, LOG_OVERHEAD
from wirebroker_audit.reading.linker import Array

if TYPE_CHECKING:
    from mypy_extensions import i64

LEAST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC_AT: Final = 16
MAGIC: Final = 2


class Walk(NamedTuple):
    """The result of a walk over a buffer: one entry per batch, and its end."""

    positions: Array
    crcs: Array
    """CRC-32C of each batch from its attributes on, as 64-bit integers"""
    contents: Array
    """XXH3 of each body, as signed 64-bit integers; it identifies contents"""
    end: int
    """the first byte that was not walked"""

    def within(self, data: bytes, start: int, stop: int) -> Walk:
        """Returns the batches of the walk whose base offset is in this range; their offsets must be in order."""
        offsets = [int.from_bytes(data[at : at + LENGTH_START], "big", signed=True) for at in self.positions.tolist()]
        low, high = np.searchsorted(offsets, (start, stop))
        return self._only(slice(low, high), self.end)

    def until(self, end: int) -> Walk:
        """Returns the walk without its last batch if that batch begins at `end`."""
        return self if end == self.end else self._only(slice(-1), end)

    def _only(self, chosen: slice, end: int) -> Walk:
        return Walk(self.positions[chosen], self.crcs[chosen], self.contents[chosen], end)


def walk(data: bytes, pos: int, stop: int, most: int = maxsize) -> Walk:
    """Walk over at most `most` batches, while each begins before `stop`, is whole, and looks like a batch."""
    limits = _limits(data, pos, min(stop - 1, len(data) - HEADER_SIZE), most)
    count = len(limits) - 1
    crcs = np.fromiter(_of_each(crc32c, data, limits, CRC_START), np.int64, count)
    contents = np.fromiter(_of_each(xxh3_64_intdigest, data, limits, HEADER_SIZE), np.uint64, count)
    return Walk(np.fromiter(limits, np.int64, count), crcs, contents.view(np.int64), limits[-1])


def _limits(data: bytes, pos: i64, last_header: i64, most: i64) -> list[int]:
    """Returns where batches begin and, as the last entry, where the last whole batch ends, by the lengths in the headers."""
    limits: list[int] = [pos]
    at: i64 = pos
    count: i64 = 0
    while at <= last_header and count < most:
        begin: i64 = at + LENGTH_START
        length: i64 = data[begin] << 24 | data[begin + 1] << 16 | data[begin + 2] << 8 | data[begin + 3]
        if length < LEAST_LENGTH or data[at + MAGIC_AT] != MAGIC:
            break
        at += LOG_OVERHEAD + length  # a length that is negative leads beyond the end, too
        limits.append(at)
        count += 1
    if at > len(data):
        limits.pop()
    return limits


def _of_each(digest: Callable[[bytes], int], data: bytes, limits: list[int], after: i64) -> list[int]:
    """Returns the digest of each batch without its first `after` bytes."""
    found: list[int] = []
    begin: i64 = -1
    for limit in limits:
        end: i64 = limit
        if begin >= 0:
            found.append(digest(data[begin + after : end]))
        begin = end
    return found
