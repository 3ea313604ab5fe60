"""Reading the batches of a split, which is a stretch of one segment file, and skipping what is damaged."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkawire.batches import HEADER_SIZE, LOG_OVERHEAD
from kafkawire.primitives import Buffer
from wirebroker_audit.scan import (
    LARGEST_BATCH,
    Chunk,
    Linker,
    Place,
    Walk,
    batch_rows,
    damage_row,
    find_batch,
    is_zero,
    looks_like_batch,
    stored_crc,
    walk,
)

CHUNK = 8 * 1024 * 1024
"""Bytes read at a time."""
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of one segment: the batches that begin in it."""

    number: int
    topic: str
    partition: int
    path: str
    segment: str
    """the path from the folder that was named"""
    start: int
    stop: int
    first_offset: int
    """the segment's, −1 where the split does not begin at the segment's beginning"""
    log_start: int
    cleaned_until: int
    error: str = ""
    """why nothing can be read"""
    problem: str = "unreadable"
    """what that is: unreadable, or deleted meanwhile"""
    size: int = 0
    """bytes of the file when it was split, and its inode: if both have changed it is another one by now; 0: not known"""
    inode: int = 0


def read_split(split: Split) -> Iterator[Chunk]:
    """The batches that begin in the split, and a row for each damage. A file that cannot be read is a row as well."""
    reader = _reader_of(split)
    if split.error:
        yield reader.damage(split.problem, split.error, 0, 0)
        return
    try:
        with open(split.path, "rb", buffering=0) as file:
            yield from reader.read(file)
    except FileNotFoundError:
        yield reader.gone()
    except OSError as refused:
        where = f"{split.path} at {reader.position}"
        yield reader.damage("unreadable", f"{where}: {refused.strerror or refused}", reader.position, 0)


def read_opened(split: Split, file: BinaryIO) -> Iterator[Chunk]:
    """As `read_split`, from a file that is open already, and may have another name by now."""
    return _reader_of(split).read(file)


def _reader_of(split: Split) -> _SplitReader:
    place = Place(split.topic, split.partition, split.segment, split.number, split.log_start, split.cleaned_until)
    linker = Linker(split.number)
    linker.start_at(max(split.first_offset, 0))
    return _SplitReader(split, place, linker)


class _SplitReader:
    """Walks through a split chunk by chunk, and over what is damaged."""

    def __init__(self, split: Split, place: Place, linker: Linker) -> None:
        self.split, self.place, self.linker = split, place, linker
        self.position = split.start
        self._size = 0

    def damage(self, problem: str, detail: str, position: int, size: int, head: Buffer = b"") -> Chunk:
        expected = self.linker.next_offset
        return damage_row(self.place, problem, detail, position=position, size=size, expected_offset=expected, head=head)

    def gone(self) -> Chunk:
        """The file is not there any more: retention or the cleaner took it, or somebody deleted the topic."""
        folder = Path(self.split.path).parent
        if folder.exists():
            return self.damage("deleted", f"{self.split.path} was deleted before it was read", self.position, 0)
        return self.damage("unreadable", f"{folder} is not there any more: the topic was deleted", self.position, 0)

    def read(self, file: BinaryIO) -> Iterator[Chunk]:
        status = os.fstat(file.fileno())
        self._size = status.st_size
        if self._size < self.split.size and status.st_ino != self.split.inode:
            yield self.damage("deleted", f"{self.split.path} was compacted before it was read", self.position, 0)
            return
        buffer = bytearray(CHUNK)
        wanted = CHUNK
        while self.position < self.split.stop:
            view = _read_at(file, self.position, min(wanted, self._size - self.position), buffer)
            if not view:  # as Kafka cuts off space that it had set aside, or a follower what its leader has not
                yield self.damage("deleted", f"{self.split.path} was cut to {self.position} bytes while it was read",
                                  self.position, 0)  # fmt: skip
                return
            found = walk(view, 0, self.split.stop - self.position)
            if found.positions and (end := self._trusted_end(file, view, found)):
                rows = batch_rows(view, found.until(end), self.place, self.linker, self.position)
                yield Chunk(view, rows, self.position)
                self.position += end
                wanted = CHUNK
                continue
            needed = _needed(view)
            if needed > len(view) and self.position + needed <= self._size:
                wanted = needed
                continue
            row, self.position = self._skip(file, view)
            if row is not None:
                yield row

    def _trusted_end(self, file: BinaryIO, view: memoryview, found: Walk) -> int:
        """Where the walk is to end: before its last batch if its CRC is bad and no batch begins behind it.

        Then it is its length that is wrong, or its end was never written.
        """
        begin, end = found.positions[-1], found.end
        if found.crcs[-1] == stored_crc(view, begin) or self.position + end >= self._size:
            return end
        position = self.position + end
        head = _read_at(file, position, min(HEADER_SIZE, self._size - position))
        if looks_like_batch(head, 0) or (not any(head) and any(view[end - 16 : end])):
            return end
        return begin

    def _skip(self, file: BinaryIO, view: memoryview) -> tuple[Chunk | None, int]:
        """What is to be said of bytes that are no batch, and where to go on."""
        begin, size = self.position, self._size
        head = bytes(view[:HEADER_SIZE])
        if is_zero(_pieces(file, begin, size)):
            return None, self.split.stop
        if _read_at(file, begin, len(head)) != head:  # it was being written; it is there now
            return None, begin
        at = next_batch(file, begin + 1, size)
        words = _what_is_wrong(view, size - begin)
        if at is not None:
            detail = f"{words}; {at - begin} bytes up to the next batch were skipped"
            return self.damage("bad_batch", detail, begin, at - begin, head), at
        torn = len(view) < HEADER_SIZE or looks_like_batch(view, 0)
        detail = f"{words}; {size - begin} bytes up to the end of the file hold no whole batch"
        return self.damage("torn_tail" if torn else "bad_batch", detail, begin, size - begin, head), self.split.stop


def _needed(view: memoryview) -> int:
    """How many bytes the batch at the beginning of the view needs, 0 if that cannot be believed."""
    if not looks_like_batch(view, 0):
        return HEADER_SIZE if len(view) < HEADER_SIZE else 0
    return int(_LENGTH.unpack_from(view, 8)[0]) + LOG_OVERHEAD


def _what_is_wrong(view: memoryview, left: int) -> str:
    if len(view) < HEADER_SIZE:
        return f"{left} bytes are left where a header has {HEADER_SIZE}"
    magic = int(np.int8(np.uint8(view[16])))
    (length,) = _LENGTH.unpack_from(view, 8)
    if magic != 2:
        return f"the magic byte is {magic}, not 2"
    if not HEADER_SIZE - LOG_OVERHEAD <= length <= LARGEST_BATCH:
        return f"the length is {length}"
    if length + LOG_OVERHEAD > left:
        return f"the batch says that it has {length + LOG_OVERHEAD} bytes, and {left} are left"
    return f"the batch says that it has {length + LOG_OVERHEAD} bytes, but its checksum does not fit and no batch follows"


def _read_at(file: BinaryIO, position: int, size: int, buffer: bytearray | None = None) -> memoryview:
    """Up to `size` bytes from `position` on; in `buffer`, if one is given and large enough."""
    file.seek(position)
    if buffer is None or len(buffer) < size:
        buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        count = file.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return view[:filled]


def _pieces(file: BinaryIO, begin: int, end: int) -> Iterator[memoryview]:
    while begin < end:
        piece = _read_at(file, begin, min(CHUNK, end - begin))
        if not piece:
            return
        yield piece
        begin += len(piece)


def whole_batches(file: BinaryIO, position: int, size: int) -> Iterator[tuple[int, memoryview, Walk]]:
    """Where a stretch of whole batches begins, its bytes, and the walk over them; over damage as far as a batch is proven.

    It ends before what is still being written.
    """
    wanted = 2 * CHUNK
    while position < size:
        view = _read_at(file, position, min(wanted, size - position))
        walked = walk(view, 0, len(view))
        if walked.positions:
            yield position, view, walked
            position, wanted = position + walked.end, 2 * CHUNK
            continue
        needed = _needed(view)
        if len(view) < needed <= size - position:
            wanted = needed
            continue
        behind = None if needed > len(view) else next_batch(file, position + 1, size)
        if behind is None:
            return
        position = behind


def next_batch(file: BinaryIO, begin: int, size: int) -> int | None:
    """The next proven batch from `begin` up to the end of the file."""
    while begin < size:
        view = _read_at(file, begin, min(2 * CHUNK, size - begin))
        at = find_batch(view, 0, min(len(view), CHUNK))
        if at is not None:
            return begin + at
        begin += CHUNK
    return None
