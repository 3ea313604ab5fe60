"""One segment of a partition's log: its .log file, and the indexes of its offsets and times.

Every batch is written to the .log file immediately, and reads come from the file; as in Kafka, the page cache makes this fast.
The active segment's indexes exist only in memory, because a start after a crash rebuilds them from the batches. When the
segment is closed, the indexes are written to files, and the next search in the closed segment reads these files.
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
from kafkawire.disk.opening import check_size
from kafkawire.disk.walking import ANYWHERE, WINDOW, batches_in, damage_at, gap_at
from kafkawire.primitives import Buffer
from wirebroker.core.logs.interface import NO_TIMESTAMP
from wirebroker.storage import files

_START = struct.Struct(">qii")
_PLACE = struct.Struct(">qi11xi")
"""The base offset, the length, and the last offset delta of a batch."""
_delta_of = struct.Struct(">i").unpack_from
_START_SIZE = _START.size
_DELTA_AT = 23
_LOOK = 8 * 1024
"""The number of bytes that a search for a batch reads at once."""
FULL = -(1 << 64)
"""A full segment gets this early creation time, so that the log begins a new segment with the next batch."""
MOST_OPEN = 128
"""The largest number of files that a store keeps open for writing."""
INDEXES_KEPT = 16
"""The indexes of at most this many closed segments, in all partitions together, stay in memory."""
_LARGEST_SPAN = 1 << 30
"""A segment is full when it spans more than this many offsets. The relative offsets in its indexes allow about twice as
many."""


class Recent:
    """Remembers up to `most` segments. When a further segment is used, calls `release` with the least recently used segment."""

    def __init__(self, most: int, release: Callable[[Segment], None]) -> None:
        self._most, self._release = most, release
        self._held: dict[Segment, None] = {}

    def use(self, segment: Segment) -> None:
        """Remember that the segment is being used."""
        self.forget(segment)
        self._held[segment] = None
        if len(self._held) > self._most:
            oldest = next(iter(self._held))
            self.forget(oldest)
            self._release(oldest)

    def forget(self, segment: Segment) -> None:
        """Forget the segment, because it no longer needs to be released."""
        self._held.pop(segment, None)


class SegmentSettings(NamedTuple):
    """The settings of indexes, and the callbacks and other objects that all segments of a store share.

    `interval` is index.interval.bytes. The largest number of entries in each index is computed from segment.index.bytes. A
    segment calls `written` after each write, so that the segment will be synced.
    """

    interval: int
    offsets: int
    times: int
    written: Callable[[], None]
    files: Recent
    """The segments whose files are open for writing."""
    failed: Callable[[OSError], None] = lambda failure: None
    """A function that is called with the error when a write fails."""


class Index:
    """The index of a segment: for some of the batches, the last offset, the position, and the largest timestamp so far."""

    __slots__ = ("newest", "offsets", "positions", "stamps")

    def __init__(
        self, offsets: Iterable[int] = (), positions: Iterable[int] = (), stamps: Iterable[int] = (),
        newest: Iterable[int] = (),
    ) -> None:  # fmt: skip
        self.offsets = array("q", offsets)
        self.positions = array("i", positions)
        self.stamps = array("q", stamps)
        self.newest = array("q", newest)
        """For each timestamp in `stamps`, the last offset of its batch."""

    def note_time(self, timestamp: int, offset: int) -> None:
        """Add a timestamp and the last offset of its batch, if the timestamp is larger than all earlier timestamps."""
        if timestamp > (self.stamps[-1] if self.stamps else -1):
            self.stamps.append(timestamp)
            self.newest.append(offset)

    def cut(self, offset: int) -> None:
        """Remove the entries for `offset` and later offsets."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:], self.positions[keep:]
        keep = bisect_left(self.newest, offset)
        del self.stamps[keep:], self.newest[keep:]


class Expected(NamedTuple):
    """Facts from the partition's other files. A segment's batches must agree with these facts."""

    gaps_below: int
    """Compaction may have removed offsets below this offset."""
    epochs: LeaderEpochs
    aborted: set[tuple[int, int]]
    """The producer id and the marker's offset of every aborted transaction."""


class Segment:
    """A segment: consecutive batches in one file. `created` is the segment's creation time in ms since the epoch."""

    __slots__ = (
        "_fd", "_index", "_interval", "_most_entries", "_newest", "_settings", "_since_entry", "_unchecked_end", "base_offset",
        "created", "dirty", "first_timestamp", "folder", "max_timestamp", "size", "unchecked",
    )  # fmt: skip

    def __init__(self, folder: Path, base_offset: int, created: int, settings: SegmentSettings, index: Index | None) -> None:
        """Make the object without reading a file. If `index` is None, the segment is closed and its index is in files."""
        self.folder = folder
        self.base_offset = base_offset
        self.created = created
        self.size = 0
        self.max_timestamp = -1
        self.first_timestamp = NO_TIMESTAMP
        self.dirty = False
        """Tells whether the segment has changed since its last sync."""
        self.unchecked: Expected | None = None
        """When a batch before `_unchecked_end` is read, it is compared with these facts. None if this process has already
        checked or written every batch.
        """
        self._unchecked_end = 0
        """The position after the batches that were in the file at the start. The facts do not concern later batches."""
        self._newest = base_offset
        """The last offset of the batch with the largest timestamp."""
        self._settings = settings
        self._interval = settings.interval
        self._most_entries = min(settings.offsets, settings.times)
        self._index = index
        self._since_entry = 0
        self._fd = -1

    def path(self, suffix: str = LOG, ending: str = "") -> Path:
        """Returns the path of the segment's file with this suffix. `ending` is appended to the name of a file that is not
        finished.
        """
        return self.folder / (file_name(self.base_offset, suffix) + ending)

    def paths(self, ending: str = "") -> list[Path]:
        """Returns the paths of those files of the segment that exist."""
        return [path for path in (self.path(suffix, ending) for suffix in SEGMENT_FILES) if path.exists()]

    # Writing

    def create(self) -> None:
        """Create the empty .log file and empty indexes, as Kafka does. If this raises OSError, the segment does not exist."""
        for suffix in (OFFSET_INDEX, TIME_INDEX, LOG):  # the log file is last: without it the segment does not exist
            files.write(self.path(suffix), b"")
        self.touched()

    def touched(self) -> None:
        """Remember that the segment was written to and is not synced."""
        self.dirty = True
        self._settings.written()

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Write the batch with this base offset. Raises OSError; the file is then unchanged."""
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
        if not self.dirty or not self.size:  # an empty segment is not synced, but its log may count as synced
            self.touched()
        self.note(base_offset + _delta_of(batch, _DELTA_AT)[0], size, timestamp)

    def _cut_back(self) -> None:
        """Remove the bytes of a failed write. If this fails, too, close the file; the next opening of the file removes the
        bytes.
        """
        try:
            if self._fd >= 0:
                os.ftruncate(self._fd, self.size)
        except OSError:
            self.release()

    def note(self, last_offset: int, size: int, timestamp: int) -> None:
        """Add the file's next batch to the index and the counters (LogSegment.append)."""
        if timestamp > self.max_timestamp:
            self.max_timestamp, self._newest = timestamp, last_offset
        if not self.size:
            self.first_timestamp = timestamp if timestamp >= 0 else NO_TIMESTAMP
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
        """Write the indexes, including the index of aborted transactions if the segment has any. Raises OSError."""
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
        """Add the last entry to the time index, before the index is written to its file."""
        self.index.note_time(self.max_timestamp, self._newest)

    def let_go(self) -> None:
        """Close the file, and drop the index from memory. The next use of the segment opens the file and reads the index
        again.
        """
        self.release()
        self._index = None

    def release(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._settings.files.forget(self)

    def _open(self) -> None:
        self._fd = files.open_to_append_at(self.path(), self.size)
        self._settings.files.use(self)

    def reopened(self) -> Segment:
        """Returns an active segment with the files of this closed segment. The active segment is a new object, so a reader of
        the closed segment notices the change.
        """
        made = Segment(self.folder, self.base_offset, self.created, self._settings, self.index)
        made.size, made.dirty = self.size, self.dirty
        made.max_timestamp, made._newest = self.max_timestamp, self._newest
        made.first_timestamp = self.first_timestamp
        self.let_go()
        return made

    def truncate(self, position: int, offset: int) -> None:
        """Cut the segment at `position`, where the batch with `offset` begins. `cut_files` then cuts the files."""
        self.index.cut(offset)
        self.size = position
        self._unchecked_end = min(self._unchecked_end, position)
        self.touched()
        self._since_entry = 0
        self._recount()

    def cut_files(self) -> None:
        """Cut the file at the segment's end, and delete the indexes. Afterwards the index exists only in memory. Raises
        OSError."""
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            self.path(suffix).unlink(missing_ok=True)
        if self._fd < 0:
            self._open()
        os.ftruncate(self._fd, self.size)

    # Reading

    @property
    def index(self) -> Index:
        """The index. The index of a closed segment is read from its files. If these files are damaged, the index is empty, and
        a search reads the batches instead.
        """
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
        """Accept the files of a closed segment after reading only their ends. Returns the offset after the last batch.

        Raises DamagedFile or FileNotFoundError if the files contradict each other; the caller must then read the segment's
        batches.
        """
        found = last_entry(self.path(OFFSET_INDEX), OFFSET_ENTRY)
        relative, position = found or (-1, 0)
        if found and (relative < 0 or position <= 0):
            raise DamagedFile(self.path(OFFSET_INDEX), "the last entry is not a valid index entry")
        tail = self._tail(position)
        end = self._end_of(tail, position, self.base_offset + relative)
        newest = last_entry(self.path(TIME_INDEX), TIME_ENTRY)
        timestamp, relative = newest or (-1, 0)
        if newest and not 0 <= relative < end - self.base_offset:
            raise DamagedFile(self.path(TIME_INDEX), "the last entry has an offset that the segment does not have")
        self.max_timestamp, self._newest = timestamp, self.base_offset + relative
        if any(header.max_timestamp > timestamp for _, header in batches_in(tail)) or (tail and not newest):
            raise DamagedFile(self.path(TIME_INDEX), "the last entry is older than the last batches")
        self.unchecked, self._unchecked_end = expected, self.size
        return end

    def _tail(self, position: int) -> memoryview:
        """Returns the bytes of the log file from `position` on. `position` is the position in the last index entry."""
        fd = files.open_to_read(self.path())
        try:
            self.size = os.fstat(fd).st_size
            check_size(self.path(), self.size)
            if not min(position, 1) <= self.size - position <= WINDOW:
                raise DamagedFile(self.path(OFFSET_INDEX), "the last entry is not near the end of the log")
            first = files.read_at(fd, HEADER_SIZE, 0)
            if len(first) == HEADER_SIZE and (timestamp := BatchHeader._make(HEADER.unpack(first)).max_timestamp) >= 0:
                self.first_timestamp = timestamp
            return memoryview(files.read_at(fd, self.size - position, position))
        finally:
            os.close(fd)

    def _end_of(self, tail: memoryview, position: int, indexed: int) -> int:
        """Returns the offset after the batches in `tail`. If the index has an entry (`position` > 0), the first batch must
        contain the offset `indexed`.
        """
        end, at = self.base_offset, 0
        while at < len(tail):
            if why := damage_at(tail, at, end):
                raise DamagedFile(self.path(), why, position + at)
            header = BatchHeader._make(HEADER.unpack_from(tail, at))
            if not at and position and not header.base_offset <= indexed <= header.last_offset:
                raise DamagedFile(self.path(OFFSET_INDEX), "the last entry has another offset than the batch at its position")
            end, at = header.last_offset + 1, at + header.size
        return end

    def _recount(self) -> None:
        """Set the largest timestamp from the index and from the batches after the last index entry."""
        index = self.index
        self.max_timestamp, self._newest = -1, self.base_offset
        if index.stamps:
            self.max_timestamp, self._newest = index.stamps[-1], index.newest[-1]
        for _, header in self.headers(index.positions[-1] if index.positions else 0):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self._newest = header.max_timestamp, header.last_offset

    def read(self, position: int, size: int) -> bytes:
        """Returns at most `size` bytes from `position`, within the segment."""
        size = min(size, self.size - position)
        if self._fd >= 0:
            return files.read_at(self._fd, size, position)
        fd = files.open_to_read(self.path())
        try:
            return files.read_at(fd, size, position)
        finally:
            os.close(fd)

    def find(self, offset: int) -> int:
        """Returns the position of the first batch that ends at or after `offset`, or the segment's size if there is no such
        batch."""
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
        """Returns a position from the index, at or before the batch with `offset`. If the index was not checked before, the
        entry is compared with the log.
        """
        index = self.index
        entry = bisect_right(index.offsets, offset) - 1
        if entry < 0:
            return 0
        position = index.positions[entry]
        if self.unchecked and not self.holds(index.offsets[entry], position):
            self._index = Index()  # the index is wrong; without it, a search finds the same batch, but takes longer
            return 0
        return position

    def holds(self, offset: int, position: int) -> bool:
        """Tells whether the batch at `position` contains this offset."""
        header = self.header_at(position)
        return header is not None and header.magic == 2 and header.base_offset <= offset <= header.last_offset

    def header_at(self, position: int) -> BatchHeader | None:
        """Returns the header of the batch that begins at `position`, or None if the file ends there."""
        start = self.read(position, HEADER_SIZE) if 0 <= position < self.size else b""
        return BatchHeader._make(HEADER.unpack(start)) if len(start) == HEADER_SIZE else None

    def header_of(self, offset: int) -> BatchHeader | None:
        """Returns the header of the batch that has this offset, or None if no batch has the offset."""
        position = self.find(offset) if offset >= self.base_offset else self.size
        return self.header_at(position) if self.holds(offset, position) else None

    def check(self, data: memoryview, position: int) -> None:
        """Check the complete batches in `data`, except batches that this process has already checked or written. `data` was
        read at `position`. Raises DamagedFile.
        """
        if self.unchecked is not None and position < self._unchecked_end:
            self._check(data[: self._unchecked_end - position], position, self.unchecked)

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
        """Raises DamagedFile if the batch is an abort marker for a producer in `begun`, but the index of aborted transactions
        lacks the aborted transaction.
        """
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
                    f"Restore the file from a copy; or stop the broker and remove {self.folder.parent / RECOVERY_POINTS}, so "
                    "that the next start rebuilds the file",
                )

    def batch_size(self, position: int) -> int:
        return int(HEADER.unpack(self.read(position, HEADER_SIZE))[1]) + LOG_OVERHEAD

    def offset_behind(self, position: int) -> int | None:
        """Returns the last offset of the first indexed batch at or after `position` (fetchUpperBoundOffset)."""
        index = self.index
        entry = bisect_left(index.positions, position)
        return index.offsets[entry] if entry < len(index.offsets) else None

    def position_before(self, timestamp: int) -> int:
        """Returns a position at which a search for `timestamp` may begin. All batches before this position have smaller
        timestamps."""
        index = self.index
        entry = bisect_left(index.stamps, timestamp) - 1
        return self.find(index.newest[entry]) if entry >= 0 else 0

    def headers(self, position: int) -> Iterable[tuple[int, BatchHeader]]:
        """Yields the position and the header of each batch from `position` on."""
        for at, batch in self.batches(position):
            yield at, BatchHeader._make(HEADER.unpack_from(batch))

    def batches(self, position: int, piece: int = 1024 * 1024) -> Iterable[tuple[int, memoryview]]:
        """Yields the position and the bytes of each batch from `position` on. The file is read in pieces of about `piece`
        bytes. Raises DamagedFile.
        """
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
