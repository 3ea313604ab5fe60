"""Reads the batches of a piece of one segment file, and skips damaged bytes."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from kafkawire.batches import HEADER_SIZE, LOG_OVERHEAD
from kafkawire.disk.damage import reason
from kafkawire.disk.opening import open_to_read
from kafkawire.primitives import Buffer
from wirebroker.audit.findings import EXPIRATION_MS, PREALLOCATED
from wirebroker_audit.reading.linker import Linker
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.reading.remote import size_of
from wirebroker_audit.reading.scan import (
    LARGEST_BATCH,
    Chunk,
    batch_rows,
    damage_row,
    find_batch,
    is_zero,
    looks_like_batch,
    stored_crc,
)
from wirebroker_audit.reading.walking import Walk, walk

CHUNK = 8 * 1024 * 1024
"""This many bytes are read at a time."""
BATCHES = 8192
"""A `Chunk` has at most this many batches, so that their headers stay in the processor's cache until the rows are made."""
_LENGTH = struct.Struct(">i")
_OLD = struct.Struct(">qiIb")
"""The beginning of a message of magic 0 or 1: offset, length, CRC-32 of all bytes after the CRC, magic."""
OLD_CRC_START, OLD_LEAST = 16, 14


def read_file(piece: Piece, expiration_ms: int = EXPIRATION_MS) -> Iterator[Chunk]:
    """Yields the batches that begin in the piece of a file, and a row for each damaged place or for a file that cannot be read.

    After a pause of `expiration_ms` the broker forgets a producer, so its run ends.
    """
    reader = _FileReader(piece, expiration_ms)
    try:
        with open_to_read(piece.path, 0) as file:
            yield from reader.read(file)
    except FileNotFoundError:
        yield reader.gone()
    except OSError as refused:
        where = f"{piece.path} at {reader.position}"
        yield reader.damage("unreadable", f"{where}: {reason(refused)}", reader.position, 0)


def read_opened(piece: Piece, file: BinaryIO, expiration_ms: int = EXPIRATION_MS) -> Iterator[Chunk]:
    """Does the same as `read_file`, with a file that is already open and may have been renamed since."""
    return _FileReader(piece, expiration_ms).read(file)


class _FileReader:
    """Walks through a piece chunk by chunk and skips damage."""

    def __init__(self, piece: Piece, expiration_ms: int) -> None:
        self.piece, self.linker = piece, Linker(piece.number, piece.topic, expiration_ms)
        self.linker.start_at(max(piece.begin.segment, 0) if not piece.begin.position else 0)
        self.position, self.stop = piece.begin.position, piece.end.position
        self._size = 0

    def damage(self, problem: str, detail: str, position: int, size: int, head: Buffer = b"") -> Chunk:
        expected = self.linker.next_offset
        made = damage_row(self.piece, problem, detail, position=position, size=size, expected_offset=expected, head=head)
        self.linker.damaged(made.rows.column("producer_id")[0].as_py())
        return made

    def gone(self) -> Chunk:
        """Returns the row for a file that was deleted: by retention, by the cleaner, or with its topic."""
        folder = self.piece.path.parent
        if folder.exists():
            return self.damage("deleted", f"{self.piece.path} was deleted before it was read", self.position, 0)
        return self.damage("unreadable", f"{folder} no longer exists: the topic was deleted", self.position, 0)

    def read(self, file: BinaryIO) -> Iterator[Chunk]:
        self._size = size_of(file)
        if self._size < self.piece.file_size and not self._is_same(file):
            yield self.damage("deleted", f"{self.piece.path} was compacted before it was read", self.position, 0)
            return
        wanted = CHUNK
        data, at = b"", 0
        while self.position < self.stop:
            if at == len(data):
                data, self._size = _read_within(file, self.position, wanted, self._size)
                at = 0
            if not data:  # Kafka cut off preallocated space, or a follower cut its log
                yield self.damage("deleted", f"{self.piece.path} was cut to {self.position} bytes while it was read",
                                  self.position, 0)  # fmt: skip
                return
            begin = self.position - at
            found = walk(data, at, self.stop - begin, BATCHES)
            if len(found.positions) and (end := self._trusted_end(file, data, begin, found)) > at:
                rows = batch_rows(data, found.until(end), self.piece, self.linker, begin)
                yield Chunk(memoryview(data), rows, begin)
                self.position, at, wanted = begin + end, end, CHUNK
                continue
            view = memoryview(data)[at:]
            at = len(data)
            needed = _needed(view)
            if needed > len(view) and self.position + needed <= self._size:
                wanted = max(needed, CHUNK)
                continue
            row, self.position = self._skip(file, view)
            if row is not None:
                yield row

    def _trusted_end(self, file: BinaryIO, data: bytes, base_position: int, found: Walk) -> int:
        """Returns the end of the walk. The last batch is left out if its CRC does not match and no batch begins after it. In
        that case the length of the last batch is wrong, or its end was never written. `base_position` is the data's position in
        the file.
        """
        begin, end = int(found.positions[-1]), found.end
        position = base_position + end
        if found.crcs[-1] == stored_crc(data, begin) or position >= self._size:
            return end
        head = _read_at(file, position, min(HEADER_SIZE, self._size - position))
        if looks_like_batch(head) or (not any(head) and any(data[end - 16 : end])):
            return end
        return begin

    def _skip(self, file: BinaryIO, view: memoryview) -> tuple[Chunk | None, int]:
        """Returns a row about bytes that are not a batch, and the position after these bytes."""
        begin, size = self.position, self._size
        head = bytes(view[:HEADER_SIZE])
        unwritten = is_zero(_pieces(file, begin, size))
        is_replaced = _read_at(file, begin, len(head)) != head
        if is_replaced or self._has_grown(file):  # the batch was being written, and is complete now
            return None, begin
        if unwritten:
            if self.piece.is_active and size % PREALLOCATED == 0:
                return None, self.stop
            detail = f"the last {size - begin} bytes of the file are zeros"
            return self.damage("torn_tail", detail, begin, size - begin), self.stop
        if (old := old_format_until(file, begin, size)) > begin:
            detail = f"{old - begin} bytes of {self.piece.path} from position {begin} have a format from before Kafka 0.11 "
            return self.damage("old_format", detail + "and were not examined", begin, old - begin), old
        at = next_batch(file, begin + 1, size)
        words = _what_is_wrong(view, size - begin)
        if at is not None:
            detail = f"{words}; {at - begin} bytes were skipped up to the next batch"
            return self.damage("bad_batch", detail, begin, at - begin, head), at
        torn = len(view) < HEADER_SIZE or looks_like_batch(view)
        detail = f"{words}; the last {size - begin} bytes of the file hold no whole batch"
        return self.damage("torn_tail" if torn else "bad_batch", detail, begin, size - begin, head), self.stop

    def _has_grown(self, file: BinaryIO) -> bool:
        """Tells whether a broker has appended to the file since it was opened. If so, an incomplete last batch is not
        damage."""
        before, self._size = self._size, size_of(file)
        return self._size > before

    def _is_same(self, file: BinaryIO) -> bool:
        """Tells whether the file is still the file for which the piece was planned."""
        return bool(self.piece.inode) and os.fstat(file.fileno()).st_ino == self.piece.inode


def old_format_until(file: BinaryIO, begin: int, size: int) -> int:
    """Returns the end of the messages of magic 0 and 1 that begin at `begin` and have matching checksums."""
    view, at = b"", 0
    while True:
        if len(view) - at < _OLD.size or len(view) - at < LOG_OVERHEAD + _OLD.unpack_from(view, at)[1]:
            begin, at = begin + at, 0
            view = _read_at(file, begin, min(CHUNK, size - begin))
            if len(view) < _OLD.size:
                return begin
        _, length, crc, magic = _OLD.unpack_from(view, at)
        end = at + LOG_OVERHEAD + length
        if magic not in (0, 1) or length < OLD_LEAST or end > len(view) or crc != zlib.crc32(view[at + OLD_CRC_START : end]):
            return begin + at
        at = end


def _needed(view: memoryview) -> int:
    """Returns the size of the batch at the beginning of the view, 0 if its header is implausible."""
    if not looks_like_batch(view):
        return HEADER_SIZE if len(view) < HEADER_SIZE else 0
    return int(_LENGTH.unpack_from(view, 8)[0]) + LOG_OVERHEAD


def _what_is_wrong(view: memoryview, left: int) -> str:
    if len(view) < HEADER_SIZE:
        return f"{left} bytes remain, but a header has {HEADER_SIZE}"
    magic = int(np.int8(np.uint8(view[16])))
    (length,) = _LENGTH.unpack_from(view, 8)
    if magic != 2:
        return f"its magic byte is {magic}, expected 2"
    if not HEADER_SIZE - LOG_OVERHEAD <= length <= LARGEST_BATCH:
        return f"its length is {length}"
    if length + LOG_OVERHEAD > left:
        return f"its header announces {length + LOG_OVERHEAD} bytes, but only {left} remain"
    return f"its header announces {length + LOG_OVERHEAD} bytes, but its checksum does not match and no batch follows"


def _read_at(file: BinaryIO, position: int, size: int) -> bytes:
    """Returns `size` bytes from `position` on, or the bytes up to the end of the file."""
    file.seek(position)
    data = file.read(max(size, 0))
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _read_within(file: BinaryIO, position: int, wanted: int, size: int) -> tuple[bytes, int]:
    """Returns at most `wanted` bytes from this position of the file, and the size of the file. The returned size is smaller
    than `size` if the file has been cut."""
    asked = min(wanted, size - position)
    data = _read_at(file, position, asked)
    return data, size if len(data) == asked else position + len(data)


def _pieces(file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    while begin < end:
        piece = _read_at(file, begin, min(CHUNK, end - begin))
        if not piece:
            return
        yield piece
        begin += len(piece)


def whole_batches(file: BinaryIO, position: int, size: int) -> Iterator[tuple[int, bytes, Walk]]:
    """Yields each stretch of whole batches: its position, its bytes, and the walk over them. Damage is skipped.

    The walk ends before a batch that is still being written: the last batch of the file, if the file ends inside this batch.
    """
    wanted = 2 * CHUNK
    while position < size:
        data, size = _read_within(file, position, wanted, size)
        walked = walk(data, 0, len(data))
        if len(walked.positions):
            yield position, data, walked
            position, wanted = position + walked.end, 2 * CHUNK
            continue
        needed = _needed(memoryview(data))
        if len(data) < needed <= size - position:
            wanted = needed
            continue
        if (after := next_batch(file, position + 1, size)) is None:
            return
        position = after


def next_batch(file: BinaryIO, begin: int, size: int) -> int | None:
    """Returns the position of the first whole batch with a matching CRC at or after `begin`."""
    while begin < size:
        view = memoryview(_read_at(file, begin, min(2 * CHUNK, size - begin)))
        at = find_batch(view, min(len(view), CHUNK))
        if at is not None:
            return begin + at
        begin += CHUNK
    return None
