"""Walks from batch to batch in a buffer and computes their checksums and hashes, without Arrow.

Machine code would gain nothing here: C libraries and NumPy spend the time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from sys import maxsize
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c
from xxhash import xxh3_64_intdigest

from kafkawire.batches import CRC_START, HEADER_SIZE, LENGTH_START, LOG_OVERHEAD
from wirebroker_audit.reading.linker import Array

LEAST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC_AT: Final = 16
MAGIC: Final = 2
_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")


class Walk(NamedTuple):
    """The result of a walk over a buffer: one entry per batch, and its end."""

    positions: Array
    crcs: Array
    """CRC-32C of each batch from its attributes on, as 64-bit integers"""
    contents: Array
    """XXH3 of each body, as signed 64-bit integers; it identifies contents"""
    end: int
    """the first byte that was not walked"""

    def within(self, view: memoryview, start: int, stop: int) -> Walk:
        """Returns the batches of the walk whose base offset is in this range; their offsets must be in order."""
        offsets = [_OFFSET.unpack_from(view, position)[0] for position in self.positions.tolist()]
        low, high = np.searchsorted(offsets, (start, stop))
        return self._only(slice(low, high), self.end)

    def until(self, end: int) -> Walk:
        """Returns the walk without its last batch if that batch begins at `end`."""
        return self if end == self.end else self._only(slice(-1), end)

    def _only(self, chosen: slice, end: int) -> Walk:
        return Walk(self.positions[chosen], self.crcs[chosen], self.contents[chosen], end)


def walk(view: memoryview, pos: int, stop: int, most: int = maxsize) -> Walk:
    """Walk over at most `most` batches, while each begins before `stop`, is whole, and looks like a batch."""
    limits = _limits(view, pos, min(stop - 1, len(view) - HEADER_SIZE), most)
    positions = np.array(limits[:-1], np.int64)
    unlike = np.flatnonzero(np.frombuffer(view, np.uint8)[positions + MAGIC_AT] != MAGIC)
    if len(unlike):  # the length of such a batch means nothing, nor do the positions after it
        whole = int(unlike[0])
        positions, limits = positions[:whole], limits[: whole + 1]
    ends = limits[1:]
    crcs = _of_each(crc32c, view, positions + CRC_START, ends)
    contents = _of_each(xxh3_64_intdigest, view, positions + HEADER_SIZE, ends)
    return Walk(positions, crcs.view(np.int64), contents.view(np.int64), limits[-1])


def _limits(view: memoryview, pos: int, last_header: int, most: int) -> list[int]:
    """Returns where batches begin and, as the last entry, where the last whole batch ends, by the lengths in the headers."""
    unpack = _LENGTH.unpack_from
    limits = [pos]
    at = pos
    for _ in range(most):
        if at > last_header:
            break
        (length,) = unpack(view, at + LENGTH_START)
        if length < LEAST_LENGTH:
            break
        at += LOG_OVERHEAD + length
        limits.append(at)
    if at > len(view):
        limits.pop()
    return limits


def _of_each(digest: Callable[..., int], view: memoryview, begins: Array, ends: list[int]) -> Array:
    """Returns the digest of each stretch. `map` takes half as long as a loop, which makes the same calls."""
    stretches = map(view.__getitem__, map(slice, begins.tolist(), ends))
    return np.fromiter(map(digest, stretches), np.uint64, len(ends))
