"""Walks from batch to batch in a buffer and computes their checksums and hashes, without Arrow."""

from __future__ import annotations

from sys import maxsize
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from xxhash import xxh3_64_intdigest

from kafkawire.batches import CRC_START, HEADER_SIZE, LENGTH_START
from wirebroker_audit.reading.limits import batch_limits, of_each
from wirebroker_audit.reading.linker import Array


class Walk(NamedTuple):
    """The result of a walk over a buffer: one entry for each batch, and the place where the walk ended."""

    positions: Array
    crcs: Array
    """CRC-32C of each batch from its attributes on, as 64-bit integers"""
    contents: Array
    """XXH3 of each body, as signed 64-bit integers; it identifies contents"""
    end: int
    """the first byte that was not walked"""

    def within(self, data: bytes, start: int, stop: int) -> Walk:
        """Returns the batches of the walk whose base offset is in this range; the walk must have its batches in the order of
        their offsets."""
        offsets = [int.from_bytes(data[at : at + LENGTH_START], "big", signed=True) for at in self.positions.tolist()]
        low, high = np.searchsorted(offsets, (start, stop))
        return self._only(slice(low, high), self.end)

    def until(self, end: int) -> Walk:
        """Returns the walk up to `end`, which is the end of the walk, or the beginning of its last batch."""
        return self if end == self.end else self._only(slice(-1), end)

    def _only(self, chosen: slice, end: int) -> Walk:
        return Walk(self.positions[chosen], self.crcs[chosen], self.contents[chosen], end)


def walk(data: bytes, pos: int, stop: int, most: int = maxsize) -> Walk:
    """Walk over at most `most` batches. Stop at a batch that begins at or after `stop`, is not whole, or does not look like a
    batch."""
    limits = batch_limits(data, pos, min(stop - 1, len(data) - HEADER_SIZE), most)
    count = len(limits) - 1
    crcs = np.fromiter(of_each(crc32c, data, limits, CRC_START), np.int64, count)
    contents = np.fromiter(of_each(xxh3_64_intdigest, data, limits, HEADER_SIZE), np.uint64, count)
    return Walk(np.fromiter(limits, np.int64, count), crcs, contents.view(np.int64), limits[-1])
