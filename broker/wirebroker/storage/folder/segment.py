"""One segment of a partition's log: its .log file, and where in it offsets and times are.

Every batch is written to the file as it comes, and read from it again: what Kafka leaves to the page cache is left to it
here. The indexes of the active segment are in memory alone, since after a crash they are made anew from the batches.
They become files when the segment is closed, and those are read back when somebody looks for something there.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, iter_records, read_marker
from kafkawire.disk.checkpoints import RECOVERY_POINTS
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.epochs import LeaderEpochs
from kafkawire.disk.indexes import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    AbortedTransaction,
    last_entry,
    offset_index_bytes,
    read_offset_index,
    read_time_index,
    time_index_bytes,
    transaction_index_bytes,
)
from kafkawire.disk.names import LOG, OFFSET_INDEX, SEGMENT_FILES, TIME_INDEX, TRANSACTION_INDEX, file_name
from kafkawire.disk.walking import ANYWHERE, WINDOW, batches_in, damage_at, gap_at
from kafkawire.primitives import Buffer
from wirebroker.storage.folder import files

_START = struct.Struct(">qii")
_PLACE = struct.Struct(">qi11xi")
"""base offset, length, and behind the attributes the last offset delta"""
_delta_of = struct.Struct(">i").unpack_from
_START_SIZE = _START.size
_DELTA_AT = 23
_LOOK = 8 * 1024
"""Bytes that are read at once when a batch is looked for."""
FULL = -(1 << 64)
"""A time so long ago that a segment created then takes nothing more."""
MOST_OPEN = 128
"""How many files a store keeps open to write to them."""
_LARGEST_SPAN = 1 << 30
"""Offsets after which a segment takes nothing more; its indexes have room for twice as many."""


class OpenFiles:
    """Closes the file that was opened first when there are too many; it is opened again when it is written to.

    So thousands of partitions need no thousands of descriptors.
    """

    def __init__(self) -> None:
        self._open: dict[Segment, None] = {}

    def opened(self, segment: Segment) -> None:
        """The segment has opened its file."""
        self._open[segment] = None
        if len(self._open) > MOST_OPEN:
            next(iter(self._open)).release()

    def closed(self, segment: Segment) -> None:
        """The segment has closed it."""
        self._open.pop(segment, None)


class SegmentSettings(NamedTuple):
    """Bytes between two entries of the indexes, how many entries they take, and what the segments of a store share.

    (index.interval.bytes, segment.index.bytes.) `written` is told of what is to be synced.
    """

    interval: int
    offsets: int
    times: int
    written: Callable[[], None]
    files: OpenFiles
    failed: Callable[[OSError], None] = lambda failure: None
    """Told of what cannot be written."""


class Index:
    """Some of a segment's batches: last offsets and positions, and how late they had become by then."""

    __slots__ = ("newest", "offsets", "positions", "stamps")

    def __init__(
        self, offsets: Iterable[int] = (), positions: Iterable[int] = (), stamps: Iterable[int] = (),
        newest: Iterable[int] = (),
    ) -> None:  # fmt: skip
        self.offsets = array("q", offsets)
        self.positions = array("i", positions)
        self.stamps = array("q", stamps)
        self.newest = array("q", newest)
        """The last offsets of the batches that have the timestamps in `stamps`."""

    def note_time(self, timestamp: int, offset: int) -> None:
        """The largest timestamp so far, and the last offset of its batch; only a larger one than before is kept."""
        if timestamp > (self.stamps[-1] if self.stamps else -1):
            self.stamps.append(timestamp)
            self.newest.append(offset)

    def cut(self, offset: int) -> None:
        """Forget what is said of `offset` and what follows."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:], self.positions[keep:]
        keep = bisect_left(self.newest, offset)
        del self.stamps[keep:], self.newest[keep:]


class Expected(NamedTuple):
    """What the other files of a partition say about the batches of a segment."""

    gaps_below: int
    """Compaction may have removed offsets below this one."""
    epochs: LeaderEpochs
    aborted: set[tuple[int, int]]
    """The producer id and the marker's offset of every aborted transaction."""


class Segment:
    """Consecutive batches in one file. `created` is a time in ms since the epoch."""

    __slots__ = (
        "_fd", "_index", "_interval", "_most_entries", "_newest", "_settings", "_since_entry", "base_offset", "created",
        "dirty", "folder", "max_timestamp", "size", "unchecked",
    )  # fmt: skip

    def __init__(self, folder: Path, base_offset: int, created: int, settings: SegmentSettings, index: Index | None) -> None:
        """A segment of which nothing is known yet; without an `index` it is a closed one, whose files have it."""
        self.folder = folder
        self.base_offset = base_offset
        self.created = created
        self.size = 0
        self.max_timestamp = -1
        self.dirty = False
        """Whether something was written that may not be on the disk."""
        self.unchecked: Expected | None = None
        """What to compare each batch with when it is read; None if the broker has read or written them all since it started."""
        self._newest = base_offset
        """The last offset of the batch with the largest timestamp."""
        self._settings = settings
        self._interval = settings.interval
        self._most_entries = min(settings.offsets, settings.times)
        self._index = index
        self._since_entry = 0
        self._fd = -1

    def path(self, suffix: str = LOG, ending: str = "") -> Path:
        """One of its files; with an ending, as it is called while it is made."""
        return self.folder / (file_name(self.base_offset, suffix) + ending)

    def paths(self, ending: str = "") -> list[Path]:
        """All of its files that are there."""
        return [path for path in (self.path(suffix, ending) for suffix in SEGMENT_FILES) if path.exists()]

    # Writing

    def create(self) -> None:
        """Begin an empty file, with empty indexes as Kafka has them. Raises OSError, and then there is no such segment."""
        for suffix in (OFFSET_INDEX, TIME_INDEX, LOG):  # the segment is there with its log
            files.write(self.path(suffix), b"")
        self.touched()

    def touched(self) -> None:
        """Something was written that may not be on the disk."""
        self.dirty = True
        self._settings.written()

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Write the batch under its offset. Raises OSError, and then nothing of it is there."""
        size = len(batch)
        start = _START.pack(base_offset, size - LOG_OVERHEAD, leader_epoch)
        try:
            if self._fd < 0:
                self._open()
            files.append(self._fd, (start, memoryview(batch)[_START_SIZE:]), size)
        except OSError as failure:
            self._cut_back()
            self._settings.failed(failure)
            raise
        if not self.dirty:
            self.touched()
        self.note(base_offset + _delta_of(batch, _DELTA_AT)[0], size, timestamp)

    def _cut_back(self) -> None:
        """Remove what a failed write has left; if that fails too, the file is closed, and opening it does so."""
        try:
            if self._fd >= 0:
                os.ftruncate(self._fd, self.size)
        except OSError:
            self.release()

    def note(self, last_offset: int, size: int, timestamp: int) -> None:
        """A batch is in the file, at the end of those that were noted before (LogSegment.append)."""
        if timestamp > self.max_timestamp:
            self.max_timestamp, self._newest = timestamp, last_offset
        if self._since_entry > self._interval:
            self._enter(last_offset)
            self._since_entry = size
        else:
            self._since_entry += size
        self.size += size

    def _enter(self, last_offset: int) -> None:
        index = self._index or self.index
        index.offsets.append(last_offset)
        index.positions.append(self.size)
        stamps = index.stamps
        if self.max_timestamp > (stamps[-1] if stamps else -1):
            stamps.append(self.max_timestamp)
            index.newest.append(self._newest)
        if len(index.offsets) >= self._most_entries or last_offset - self.base_offset > _LARGEST_SPAN:
            self.created = FULL

    def close(self, aborted: Iterable[AbortedTransaction] = (), ending: str = "") -> None:
        """Write the indexes; `aborted` are the transactions whose abort markers are in the segment. Raises OSError."""
        if not ending and self.path().stat().st_size != self.size:
            self.release()
            self._open()
        index = self.index
        self.note_end()
        offsets = offset_index_bytes(self.base_offset, zip(index.offsets, index.positions, strict=True))
        files.write(self.path(OFFSET_INDEX, ending), offsets)
        times = time_index_bytes(self.base_offset, zip(index.stamps, index.newest, strict=True))
        files.write(self.path(TIME_INDEX, ending), times)
        if entries := transaction_index_bytes(aborted):
            files.write(self.path(TRANSACTION_INDEX, ending), entries)
        else:
            self.path(TRANSACTION_INDEX, ending).unlink(missing_ok=True)

    def note_end(self) -> None:
        """Let the index have what it says once the segment is closed."""
        self.index.note_time(self.max_timestamp, self._newest)

    def let_go(self) -> None:
        """Give back the descriptor and forget the index; both are there again when they are needed."""
        self.release()
        self._index = None

    def release(self) -> None:
        """Give back the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._settings.files.closed(self)

    def _open(self) -> None:
        self._fd = files.open_to_append_at(self.path(), self.size)
        self._settings.files.opened(self)

    def reopened(self) -> Segment:
        """A closed segment as one that is written to; whoever holds the closed one cannot take it for this one."""
        made = Segment(self.folder, self.base_offset, self.created, self._settings, self.index)
        made.size, made.dirty = self.size, self.dirty
        made.max_timestamp, made._newest = self.max_timestamp, self._newest
        self.let_go()
        return made

    def truncate(self, position: int, offset: int) -> None:
        """Cut off what is at `position` and behind it, which begins with `offset`; its index is in memory alone then."""
        if self._fd < 0:
            self._open()
        self.index.cut(offset)
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            self.path(suffix).unlink(missing_ok=True)
        os.ftruncate(self._fd, position)
        self.size = position
        self.touched()
        self._since_entry = 0
        self._recount()

    # Reading

    @property
    def index(self) -> Index:
        """Where things are; read from the files if the segment is closed, or from the batches if those are no good."""
        if self._index is None:
            try:
                self._index = Index(
                    *read_offset_index(self.path(OFFSET_INDEX), self.base_offset),
                    *read_time_index(self.path(TIME_INDEX), self.base_offset),
                )
            except (DamagedFile, FileNotFoundError):
                self._index = Index()
        return self._index

    def believe(self, expected: Expected) -> int:
        """Know a segment that was closed by the ends of its files; the offset behind its last batch.

        Raises DamagedFile or FileNotFoundError if they do not fit each other: then only a walk tells.
        """
        found = last_entry(self.path(OFFSET_INDEX), OFFSET_ENTRY)
        relative, position = found or (-1, 0)
        if found and (relative < 0 or position <= 0):
            raise DamagedFile(self.path(OFFSET_INDEX), "the last entry is none")
        tail = self._tail(position)
        end = self._end_of(tail, position, self.base_offset + relative)
        newest = last_entry(self.path(TIME_INDEX), TIME_ENTRY)
        timestamp, relative = newest or (-1, 0)
        if newest and not 0 <= relative < end - self.base_offset:
            raise DamagedFile(self.path(TIME_INDEX), "the last entry is of an offset that the segment does not have")
        self.max_timestamp, self._newest = timestamp, self.base_offset + relative
        if any(header.max_timestamp > timestamp for _, header in batches_in(tail)) or (tail and not newest):
            raise DamagedFile(self.path(TIME_INDEX), "the last entry is older than the last batches")
        self.unchecked = expected
        return end

    def _tail(self, position: int) -> memoryview:
        """What is in the file from the last entry of the index on."""
        fd = files.open_to_read(self.path())
        try:
            self.size = os.fstat(fd).st_size
            if not min(position, 1) <= self.size - position <= WINDOW:
                raise DamagedFile(self.path(OFFSET_INDEX), "the last entry is not near the end of the log")
            return memoryview(files.read_at(fd, self.size - position, position))
        finally:
            os.close(fd)

    def _end_of(self, tail: memoryview, position: int, indexed: int) -> int:
        """Where these batches end, the first of which the index knows by the offset `indexed` if it knows one."""
        end, at = self.base_offset, 0
        while at < len(tail):
            if why := damage_at(tail, at, end):
                raise DamagedFile(self.path(), why, position + at)
            header = BatchHeader._make(HEADER.unpack_from(tail, at))
            if not at and position and not header.base_offset <= indexed <= header.last_offset:
                raise DamagedFile(self.path(OFFSET_INDEX), "the last entry names another offset than the log")
            end, at = header.last_offset + 1, at + header.size
        return end

    def _recount(self) -> None:
        """Find the largest timestamp again: the index knows most, the batches behind its last entry the rest."""
        index = self.index
        self.max_timestamp, self._newest = -1, self.base_offset
        if index.stamps:
            self.max_timestamp, self._newest = index.stamps[-1], index.newest[-1]
        for _, header in self.headers(index.positions[-1] if index.positions else 0):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self._newest = header.max_timestamp, header.last_offset

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position` on, and no more than the segment has."""
        size = min(size, self.size - position)
        if self._fd >= 0:
            return files.read_at(self._fd, size, position)
        fd = files.open_to_read(self.path())
        try:
            return files.read_at(fd, size, position)
        finally:
            os.close(fd)

    def find(self, offset: int) -> int:
        """The position of the first batch that ends at or behind `offset`; the segment's size if none does."""
        position = self._indexed(offset)
        gaps_below = self.unchecked.gaps_below if self.unchecked else ANYWHERE
        following = -1 if position else self.base_offset
        while position < self.size:
            near = self.read(position, _LOOK)
            at, end = 0, len(near) - HEADER_SIZE
            while at <= end:
                base, length, delta = _PLACE.unpack_from(near, at)
                if gaps_below <= following != base or length < HEADER_SIZE - LOG_OVERHEAD:
                    raise self._damaged(position + at)
                following = base + delta + 1
                if following > offset:
                    return position + at
                at += LOG_OVERHEAD + length
            if not at:
                raise self._damaged(position)
            position += at
        return self.size

    def _indexed(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`, by the index; which is held against the log if need be."""
        index = self.index
        entry = bisect_right(index.offsets, offset) - 1
        if entry < 0:
            return 0
        position = index.positions[entry]
        if self.unchecked and not self.holds(index.offsets[entry], position):
            self._index = Index()  # which takes longer, and finds the same
            return 0
        return position

    def holds(self, offset: int, position: int) -> bool:
        """Whether a batch that has this offset begins at `position`."""
        header = self.header_at(position)
        return header is not None and header.magic == 2 and header.base_offset <= offset <= header.last_offset

    def header_at(self, position: int) -> BatchHeader | None:
        """The header of the batch that begins at `position`; None if the file ends there."""
        start = self.read(position, HEADER_SIZE) if 0 <= position < self.size else b""
        return BatchHeader._make(HEADER.unpack(start)) if len(start) == HEADER_SIZE else None

    def header_of(self, offset: int) -> BatchHeader | None:
        """The header of the batch that has this offset; None if no batch has."""
        position = self.find(offset) if offset >= self.base_offset else self.size
        return self.header_at(position) if self.holds(offset, position) else None

    def check(self, data: memoryview, position: int) -> None:
        """Check the whole batches in what was read at `position`, unless the start has done so. Raises DamagedFile."""
        if self.unchecked is not None:
            self._check(data, position, self.unchecked)

    def _check(self, data: memoryview, position: int, expected: Expected) -> None:
        at, following, gaps_below = 0, self.base_offset, ANYWHERE if position else expected.gaps_below
        begun: set[int] = set()
        while at + HEADER_SIZE <= len(data):
            size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
            if size >= HEADER_SIZE and at + size > len(data):
                return
            if why := damage_at(data, at, following) or gap_at(data, at, following, gaps_below):
                raise DamagedFile(self.path(), why, position + at)
            header = BatchHeader._make(HEADER.unpack_from(data, at))
            if why := expected.epochs.damage_of(header):
                raise DamagedFile(self.path(), why, position + at)
            self._check_transaction(header, data[at : at + size], begun, expected.aborted)
            following, gaps_below = header.last_offset + 1, expected.gaps_below
            at += size

    def _check_transaction(
        self, header: BatchHeader, batch: memoryview, begun: set[int], aborted: set[tuple[int, int]]
    ) -> None:
        """Raises DamagedFile if the batch aborts a transaction of one of the producers `begun` and the index lacks it."""
        if not header.is_transactional:
            return
        if not header.is_control:
            begun.add(header.producer_id)
        elif header.producer_id in begun:
            begun.discard(header.producer_id)
            record = next(iter_records(batch), None)
            marker = read_marker(record) if record is not None else None
            if marker is not None and not marker.commit and (header.producer_id, header.base_offset) not in aborted:
                raise DamagedFile(
                    self.path(TRANSACTION_INDEX),
                    f"it lacks the transaction that producer {header.producer_id} aborted at offset {header.base_offset}. "
                    f"Restore it from a copy; or stop the broker and remove {self.folder.parent / RECOVERY_POINTS}, and the "
                    "next start makes it again",
                )

    def batch_size(self, position: int) -> int:
        """Bytes of the batch at this position."""
        return int(HEADER.unpack(self.read(position, HEADER_SIZE))[1]) + LOG_OVERHEAD

    def offset_behind(self, position: int) -> int | None:
        """The last offset of the first batch in the index that begins at or behind `position` (fetchUpperBoundOffset)."""
        index = self.index
        entry = bisect_left(index.positions, position)
        return index.offsets[entry] if entry < len(index.offsets) else None

    def position_before(self, timestamp: int) -> int:
        """A position before which every batch is older than `timestamp`."""
        index = self.index
        entry = bisect_left(index.stamps, timestamp) - 1
        return self.find(index.newest[entry]) if entry >= 0 else 0

    def headers(self, position: int) -> Iterable[tuple[int, BatchHeader]]:
        """Positions and headers of the batches from `position` on."""
        for at, batch in self.batches(position):
            yield at, BatchHeader._make(HEADER.unpack_from(batch))

    def batches(self, position: int, piece: int = 1024 * 1024) -> Iterable[tuple[int, memoryview]]:
        """Positions and batches from `position` on, read in pieces of about so many bytes. Raises DamagedFile."""
        while position < self.size:
            data = memoryview(self.read(position, piece))
            used = 0
            self.check(data, position)
            for at, header in batches_in(data):
                used = at + header.size
                yield position + at, data[at:used]
            if used:
                position += used
                continue
            piece = self.batch_size(position) if len(data) >= HEADER_SIZE else 0
            if piece <= len(data) or position + piece > self.size:
                raise self._damaged(position)

    def _damaged(self, position: int) -> DamagedFile:
        return DamagedFile(self.path(), "no batch begins here; the file is damaged", position)
