"""Walks from batch to batch in a buffer and computes their checksums and hashes; compiled where possible. This module needs no
Arrow."""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crc32c import crc32c
from xxhash import xxh3_64_intdigest

from kafkawire.batches import CRC_START, HEADER_SIZE, LENGTH_START, LOG_OVERHEAD

if TYPE_CHECKING:
    from mypy_extensions import i64  # an int that compiled code keeps in a register; this import does not happen in Python

LEAST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC_AT: Final = 16
MAGIC: Final = 2
_LENGTH_MAGIC = struct.Struct(">i4xb")
_OFFSET = struct.Struct(">q")


class Walk(NamedTuple):
    """The result of a walk over a buffer: one entry per batch, and its end."""

    positions: list[int]
    crcs: list[int]
    contents: list[int]
    """XXH3 of each body, 64 bits, unsigned; it identifies contents"""
    end: int
    """the first byte that was not walked"""

    def within(self, view: memoryview, start: int, stop: int) -> Walk:
        """Returns the batches of the walk whose base offset is in this range; their offsets must be in order."""
        offsets = [_OFFSET.unpack_from(view, position)[0] for position in self.positions]
        low, high = bisect_left(offsets, start), bisect_left(offsets, stop)
        chosen = slice(low, high)
        return Walk(self.positions[chosen], self.crcs[chosen], self.contents[chosen], self.end)

    def until(self, end: int) -> Walk:
        """Returns the walk without its last batch if that batch begins at `end`."""
        if end == self.end:
            return self
        return Walk(self.positions[:-1], self.crcs[:-1], self.contents[:-1], end)


def walk(view: memoryview, pos: int, stop: int) -> Walk:
    """Walk from batch to batch while each begins before `stop`, is whole, and looks like a batch."""
    crc_of: Any = crc32c  # `Any`, because compiled code would unpack an int, but passes an object on as it is
    hash_of: Any = xxh3_64_intdigest
    unpack: Any = _LENGTH_MAGIC.unpack_from
    positions: list[int] = []
    crcs: list[Any] = []
    contents: list[Any] = []
    at: i64 = pos
    size: i64 = len(view)
    last_header: i64 = min(stop - 1, len(view) - HEADER_SIZE)
    while at <= last_header:
        length, magic = unpack(view, at + LENGTH_START)
        end: i64 = at + LOG_OVERHEAD + length
        if length < LEAST_LENGTH or end > size or magic != MAGIC:
            break
        positions.append(at)
        crcs.append(crc_of(view[at + CRC_START : end]))
        contents.append(hash_of(view[at + HEADER_SIZE : end]))
        at = end
    return Walk(positions, crcs, contents, at)
