"""Walks over the batches of a .log file, and distinguishes a torn tail from damage.

An interrupted write leaves half a batch at the end of the file. The producer got no acknowledgement for that batch, so the
incomplete batch may be cut off. If sound batches follow the bad bytes, the file is damaged: a cut would lose those batches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kafkawire.batches import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from kafkawire.checksums import crc32c
from kafkawire.disk.opening import check_size, open_to_read
from kafkawire.primitives import Buffer

WINDOW = 8 * 1024 * 1024
"""The file is read in windows of this many bytes. A batch that is larger than a window is read whole."""
SEARCH_LIMIT = 64 * 1024 * 1024
"""At most this many bytes after the damage are searched for sound batches."""
SEARCH_WORK = 16 * SEARCH_LIMIT
"""The search for sound batches computes CRCs over at most this many bytes."""
ANYWHERE = 1 << 63
"""An offset above all real offsets. With `gaps_below=ANYWHERE`, gaps are allowed everywhere."""
LAST_OFFSET = 1 << 62
"""The largest offset that a batch in a file may have. Above it, the offsets of later batches might not fit into 64 bits."""
WRONG_CRC = "the CRC of the batch does not match its bytes"
_LEAST = HEADER_SIZE - LOG_OVERHEAD


class Walked(NamedTuple):
    """A sound batch and its position."""

    position: int
    header: BatchHeader
    batch: memoryview


class Damage(NamedTuple):
    """The position at which sound batches end, and the reason."""

    position: int
    why: str


def damage_at(data: memoryview, at: int, next_offset: int) -> str:
    """Returns "" if a sound batch with an offset of at least `next_offset` begins at the position `at`. Otherwise returns the
    reason why there is no such batch."""
    left = len(data) - at
    if left < HEADER_SIZE:
        return f"{left} bytes remain, but a batch has at least {HEADER_SIZE}"
    base_offset, length, _, magic, crc, _, delta, *_ = HEADER.unpack_from(data, at)
    if length < _LEAST:
        return f"the length of the batch is {length}, the least is {_LEAST}"
    if magic != 2:
        return f"the magic byte of the batch is {magic}, expected 2"
    if LOG_OVERHEAD + length > left:
        return f"the batch has {LOG_OVERHEAD + length} bytes, but only {left} remain"
    if crc32c(data[at + CRC_START : at + LOG_OVERHEAD + length]) != crc:
        return WRONG_CRC
    if base_offset < next_offset:
        return f"the batch begins at offset {base_offset}, but the next offset is {next_offset}"
    if not 0 <= delta <= LAST_OFFSET - base_offset:
        return f"the batch of offset {base_offset} has the impossible last offset delta {delta}"
    return ""


def gap_at(data: memoryview, at: int, next_offset: int, gaps_below: int) -> str:
    """Returns a sentence if offsets are missing before the batch at `at`, and compaction is not the reason. Compaction may have
    removed offsets below `gaps_below`.
    """
    if next_offset < gaps_below:
        return ""
    found = int.from_bytes(data[at : at + 8], "big", signed=True)
    return f"the batch begins at offset {found}, but the next offset is {next_offset}" if found != next_offset else ""


class Walk:
    """Yields the batches of a file from `position` on, and checks each. If the sound batches end before the end of the file,
    sets `damage`.

    Offsets below `gaps_below` may be missing, because of compaction. At higher offsets, each batch must begin where the
    previous batch ends.
    """

    def __init__(self, path: Path, next_offset: int, position: int = 0, gaps_below: int = ANYWHERE) -> None:
        self.path = path
        self.next_offset = next_offset
        self.gaps_below = gaps_below
        self.position = position
        """The end position of the last sound batch so far."""
        self.damage: Damage | None = None

    def __iter__(self) -> Iterator[Walked]:
        with open_to_read(self.path) as file:
            size = file.seek(0, os.SEEK_END)
            check_size(self.path, size)
            while self.position < size:
                file.seek(self.position)
                window = memoryview(file.read(WINDOW))
                if len(window) >= LOG_OVERHEAD:
                    wanted = LOG_OVERHEAD + int.from_bytes(window[8:12], "big", signed=True)
                    if WINDOW < wanted <= size - self.position:
                        if not _has_its_crc(file, window, self.position + wanted):
                            self.damage = Damage(self.position, WRONG_CRC)
                            return
                        file.seek(self.position)
                        window = memoryview(file.read(wanted))
                at = 0
                last = self.position + len(window) >= size
                while at < len(window):
                    why = damage_at(window, at, self.next_offset) or gap_at(window, at, self.next_offset, self.gaps_below)
                    if why and at and not last:
                        break  # perhaps the batch is sound but continues after the window
                    if why:
                        self.damage = Damage(self.position, why)
                        return
                    header = BatchHeader._make(HEADER.unpack_from(window, at))
                    end = at + header.size
                    yield Walked(self.position, header, window[at:end])
                    self.next_offset = header.last_offset + 1
                    self.position += header.size
                    at = end


def _has_its_crc(file: BinaryIO, start: memoryview, end: int) -> bool:
    """Tells whether the CRC of a large batch matches its bytes. The batch is read whole only after this check.

    `start` has the first bytes of the batch, and the file's position is right after them. The batch ends at `end`.
    """
    crc, left = crc32c(start[CRC_START:]), end - file.tell()
    while left and (piece := file.read(min(left, WINDOW))):
        crc, left = crc32c(piece, crc), left - len(piece)
    return not left and crc == HEADER.unpack_from(start)[4]


def sound_batch_after(path: Path, damage: Damage, next_offset: int) -> int | None:
    """Returns the position of a sound batch after the damage. Returns None if no sound batch follows: then the damage is only a
    torn tail.

    If too many bytes look like batches, returns the position where the search ended.
    """
    with open_to_read(path) as file:
        file.seek(damage.position)
        data = memoryview(file.read(SEARCH_LIMIT))
    # Look only where a batch may begin: the upper half of its offset is as in `next_offset`, and its byte 16 is the magic 2.
    likely = re.compile(rb"(?s)(?=" + re.escape(next_offset.to_bytes(8, "big")[:4]) + rb".{4}\0.{7}\x02)")
    work = SEARCH_WORK
    for match in likely.finditer(data, 1):
        at = match.start()
        if not damage_at(data, at, next_offset) or work < 0:
            return damage.position + at
        work -= max(int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True), 0)
    return None


def is_torn(path: Path, damage: Damage, next_offset: int) -> bool:
    """Tells whether the end of the file looks like an interrupted write: the beginning of the next batch, or zeros."""
    with open_to_read(path) as file:
        file.seek(damage.position)
        tail = file.read(SEARCH_LIMIT)
    if len(tail) < HEADER_SIZE or not any(tail):
        return True
    base_offset, _, _, magic, *_ = HEADER.unpack_from(tail)
    return bool(base_offset == next_offset and magic == 2)


def is_cut_short(path: Path, damage: Damage) -> bool:
    """Tells whether the file ends within the batch, as it may after the broker was killed. If not, the file has the whole
    batch, whose bytes are damaged."""
    with open_to_read(path) as file:
        left = file.seek(0, 2) - damage.position
        file.seek(damage.position)
        start = file.read(HEADER_SIZE)
    return left < HEADER_SIZE or LOG_OVERHEAD + HEADER.unpack(start)[1] > left


def batches_in(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of each whole batch in sound data; a partial batch at the end is left out."""
    view = memoryview(data)
    at, end = 0, len(view)
    while end - at >= HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack_from(view, at))
        if header.batch_length < _LEAST or at + header.size > end:
            return
        yield at, header
        at += header.size
