"""From batch to batch in a buffer, and their checksums; compiled where it can be. Without Arrow, which `scan` adds."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from typing import Final, NamedTuple

from crc32c import crc32c

from kafkawire.batches import CRC_START, HEADER_SIZE, LENGTH_START, LOG_OVERHEAD

LEAST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC_AT: Final = 16
MAGIC: Final = 2
_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")


class Walk(NamedTuple):
    """The result of a walk over a buffer: one entry per batch, and its end."""

    positions: list[int]
    crcs: list[int]
    contents: list[int]
    end: int
    """the first byte that was not walked"""

    def within(self, view: memoryview, start: int, stop: int) -> Walk:
        """The batches whose base offset is in this range; the walk must be in order of offsets."""
        offsets = [_OFFSET.unpack_from(view, position)[0] for position in self.positions]
        low, high = bisect_left(offsets, start), bisect_left(offsets, stop)
        return Walk(self.positions[low:high], self.crcs[low:high], self.contents[low:high], self.end)

    def until(self, end: int) -> Walk:
        """Returns the walk without its last batch if that batch begins at `end`."""
        if end == self.end:
            return self
        return Walk(self.positions[:-1], self.crcs[:-1], self.contents[:-1], end)


def walk(view: memoryview, pos: int, stop: int) -> Walk:
    """Walk from batch to batch while each begins before `stop`, is whole, and looks like a batch."""
    crc_of, plain_crc = crc32c, zlib.crc32
    positions: list[int] = []
    crcs: list[int] = []
    contents: list[int] = []
    size = len(view)
    last_header = min(stop - 1, size - HEADER_SIZE)
    while pos <= last_header:
        (length,) = _LENGTH.unpack_from(view, pos + LENGTH_START)
        end = pos + LOG_OVERHEAD + length
        if length < LEAST_LENGTH or end > size or view[pos + MAGIC_AT] != MAGIC:
            break
        body = view[pos + HEADER_SIZE : end]
        positions.append(pos)
        crcs.append(crc_of(view[pos + CRC_START : end]))
        contents.append(plain_crc(body) << 32 | crc_of(body))
        pos = end
    return Walk(positions, crcs, contents, pos)
