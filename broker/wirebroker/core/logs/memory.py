"""A partition's log in memory: segments of whole batches, in buffers that a Fetch can send without copying.

The log copies each small batch once, into a chunk that consecutive batches share. So a million batches are not a million
objects. A large batch stays in the buffer in which it arrived. A chunk is never moved or shrunk, so the `memoryview` of a slow
reader stays valid when the log changes.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Self

from kafkawire.batches import read_header
from kafkawire.primitives import Buffer, Pieces, in_one_buffer
from wirebroker.core.logs.arena import allocate
from wirebroker.core.logs.cleaning import Cleaning, Steps
from wirebroker.core.logs.interface import EMPTY, NO_TIMESTAMP, Kept, Owner, Slice

FIRST_CHUNK = 1024
LARGEST_CHUNK = 4 * 1024 * 1024
OWN_BUFFER_FROM = 100 * 1024
"""A batch of at least this size in bytes is kept in a buffer of its own."""
PIECES_FROM = 64 * 1024
"""If the bytes for a reader are in several buffers and are fewer than this, they are copied into one buffer: the copy takes
less time than sending several buffers."""
MOST_IN_PIECES = 1024 * 1024
"""If the bytes for a reader are in several buffers, the reader gets at most this many bytes. This is the default of the
consumers' max.partition.fetch.bytes."""
INDEX_INTERVAL = 4096
"""The number of bytes between two entries of Kafka's offset index."""
ANY_SIZE = 2**31 - 1
INTERNAL_SEGMENT = 512 * 1024
"""A segment of an internal topic is closed at this size in bytes, so that compaction can begin. Kafka, whose segments are on
disk, closes such a segment at 100 MiB.
"""
_START = struct.Struct(">qii")


class Segment:
    """A segment of a log in memory. `created` is the time of the first append, in ms since the epoch."""

    __slots__ = (
        "_apart", "_at", "_capacity", "_chunk", "_next_chunk", "_starts", "_views", "base_offset", "bases", "created",
        "first_timestamp", "max_timestamp", "positions", "size", "timestamps",
    )  # fmt: skip

    def __init__(self, base_offset: int, created: int, chunk: int = FIRST_CHUNK) -> None:
        self.base_offset = base_offset
        self.created = created
        self.size = 0
        self.max_timestamp = -1
        self.first_timestamp = NO_TIMESTAMP
        self.bases = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        self._starts: list[int] = []
        self._views: list[memoryview] = []
        self._chunk = memoryview(b"")
        self._at = self._capacity = 0
        self._apart = True
        """Tells whether the next small batch begins a new view. This is so if the bytes of the batch will not directly follow
        the bytes of the last batch."""
        self._next_chunk = chunk

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Append the batch. If `owned` is set and the batch is large, the segment keeps the buffer. Otherwise the segment
        copies the bytes."""
        size = len(batch)
        if owned and size >= OWN_BUFFER_FROM:
            chunk, at = memoryview(batch), 0
            self._add_view(chunk, timestamp)
            self._apart = True
        else:
            if self._at + size > self._capacity:
                self._chunk, self._at = allocate(max(self._next_chunk, size)), 0
                self._capacity = len(self._chunk)
                self._next_chunk = min(self._capacity * 4, LARGEST_CHUNK)
                self._apart = True
            chunk, at = self._chunk, self._at
            if self._apart:
                self._add_view(chunk[at:], timestamp)
                self._apart = False
            chunk[at : at + size] = batch
            self._at = at + size
        # The batch's CRC does not cover the base offset and the leader epoch, so the broker can set these two fields.
        _START.pack_into(chunk, at, base_offset, size - 12, leader_epoch)
        self.bases.append(base_offset)
        self.positions.append(self.size)
        self.timestamps.append(timestamp)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.size += size

    def _add_view(self, view: memoryview, timestamp: int) -> None:
        """Add a view of the buffer that holds the next batches."""
        if not self.size and timestamp >= 0:
            self.first_timestamp = timestamp
        self._starts.append(self.size)
        self._views.append(view)

    def view(self, start: int, stop: int) -> memoryview:
        """Returns the bytes from `start` to `stop`, but at most to the end of the buffer that contains `start`."""
        index = bisect_right(self._starts, start) - 1
        base = self._starts[index]
        held = self._starts[index + 1] - base if index + 1 < len(self._starts) else self.size - base
        return self._views[index][start - base : min(stop - base, held)]

    def pieces(self, start: int, stop: int) -> memoryview | Pieces:
        """Returns the bytes from `start` to `stop`, which lie in several buffers."""
        buffers = []
        while start < stop:
            buffers.append(self.view(start, stop))
            start += len(buffers[-1])
        pieces = Pieces(buffers)
        return pieces if len(pieces) >= PIECES_FROM else in_one_buffer(pieces)

    def batch(self, index: int) -> memoryview:
        start = self.positions[index]
        stop = self.positions[index + 1] if index + 1 < len(self.positions) else self.size
        return self.view(start, stop)

    def find(self, offset: int) -> int:
        """Returns the index of the first batch that ends at or after `offset`. The offset must be less than the base offset of
        the next segment."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def batches(self, position: int) -> Iterator[tuple[int, memoryview]]:
        """Yields the batches at or after the byte `position` of the segment, each with its position."""
        for index in range(bisect_left(self.positions, position), len(self.bases)):
            yield self.positions[index], self.batch(index)

    def up_to(self, index: int) -> Self:
        """Returns a new segment with the batches before this index, in the same buffers. Readers of the old segment can
        continue."""
        made = type(self)(self.base_offset, self.created)
        made.size = self.positions[index] if index < len(self.positions) else self.size
        made.bases, made.positions, made.timestamps = self.bases[:index], self.positions[:index], self.timestamps[:index]
        # Later batches go into a new chunk, because a slow reader may still refer to the removed bytes.
        count = bisect_left(self._starts, made.size)
        made._starts, made._views = self._starts[:count], self._views[:count]
        made.max_timestamp = max(made.timestamps, default=-1)
        made.first_timestamp = self.first_timestamp if made.bases else NO_TIMESTAMP
        made._next_chunk = self._next_chunk
        return made


class CleanedSegment(Segment):
    """A segment after compaction. Offsets may be missing between two batches."""

    __slots__ = ("lasts",)

    def __init__(self, base_offset: int, created: int) -> None:
        super().__init__(base_offset, created)
        self.lasts = array("q")

    def keep(self, batch: Buffer) -> None:
        """Append a batch. The records in the batch keep their offsets."""
        header = read_header(batch)
        self.append(batch, header.base_offset, header.partition_leader_epoch, header.max_timestamp, False)
        self.lasts.append(header.last_offset)

    def find(self, offset: int) -> int:
        """Returns the index of the first batch that ends at or after `offset`. If all batches end before `offset`, returns the
        number of batches."""
        return bisect_left(self.lasts, offset)

    def up_to(self, index: int) -> Self:
        """Returns a new segment with the batches before this index, in the same buffers."""
        made = super().up_to(index)
        made.lasts = self.lasts[:index]
        return made


class MemoryLog:
    """A log in memory. No offset is missing from `cleaned_to` to `end_offset`. `Log` describes the methods."""

    __slots__ = ("active", "cleaned_to", "end_offset", "largest_segment", "last_epoch", "segments")

    def __init__(self, base_offset: int = 0, now: int = 0, largest_segment: int = ANY_SIZE) -> None:
        self.end_offset = base_offset
        self.last_epoch = -1
        self.largest_segment = largest_segment
        self.cleaned_to = 0
        self.active = Segment(base_offset, now)
        self.segments = [self.active]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, batch: Buffer, records: int, leader_epoch: int, timestamp: int, owned: bool = False) -> int:
        base_offset = self.end_offset
        self.active.append(batch, base_offset, leader_epoch, timestamp, owned)
        self.last_epoch = leader_epoch
        self.end_offset = base_offset + records
        return base_offset

    def roll(self, now: int) -> None:
        if not self.active.bases:
            self.active.created = now
            return
        self.active = Segment(self.end_offset, now, min(self.active._next_chunk, self.largest_segment))
        self.segments.append(self.active)

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> Slice:
        """See `Log.read`. As in Kafka, the slice does not continue into the next segment. A slice of MOST_IN_PIECES bytes or
        more does not continue into the next buffer, either.
        """
        if offset >= limit:
            return EMPTY
        segment, first = self._find(offset)
        if first == len(segment.bases):
            return EMPTY
        start = segment.positions[first]
        stop = segment.size
        if limit < self.end_offset and segment.bases[-1] >= limit:
            stop = segment.positions[bisect_right(segment.bases, limit - 1)]
        available = stop - start
        if available <= 0:
            return EMPTY  # the first batch begins at or after the limit
        if available > max_bytes:
            behind = segment.positions[first + 1] if first + 1 < len(segment.positions) else segment.size
            if max_bytes < behind - start:
                if not at_least_one:
                    return Slice(EMPTY.records, available)
                max_bytes = behind - start
            stop = start + max_bytes
        found = segment.view(start, stop)
        if len(found) < stop - start and len(found) < MOST_IN_PIECES:
            return Slice(segment.pieces(start, min(stop, start + MOST_IN_PIECES)), available)
        return Slice(found, available)

    def offset_after(self, offset: int, size: int) -> int:
        """See `Log.offset_after`. Kafka searches a sparse index, so the returned offset may be a few batches later than
        necessary. In wirebroker, these batches have at most 4 KiB.
        """
        segment, first = self._find(offset)
        if first == len(segment.bases):
            return self.end_offset
        behind = bisect_left(segment.positions, segment.positions[first] + size + INDEX_INTERVAL)
        if behind < len(segment.bases):
            return segment.bases[behind]
        return self.end_offset if segment is self.active else self._segment_behind(segment).base_offset

    def batches(self, start_offset: int = 0) -> list[memoryview]:
        found = []
        for segment in self.segments[self._segment_of(start_offset) :]:
            found += [segment.batch(i) for i in range(segment.find(start_offset), len(segment.bases))]
        return found

    def batches_since(self, timestamp: int, from_offset: int) -> list[memoryview]:
        found = []
        for segment in self.segments[self._segment_of(from_offset) :]:
            if segment.max_timestamp >= timestamp:
                stamps = segment.timestamps
                first = segment.find(from_offset)
                found += [segment.batch(i) for i in range(first, len(stamps)) if stamps[i] >= timestamp]
        return found

    def drop_segments_below(self, offset: int) -> None:
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
            del self.segments[0]

    def empty(self, offset: int, now: int, *, closes: bool) -> None:
        if offset == self.end_offset:
            self.start_at(offset, now)
        else:
            self.drop_segments_below(offset)

    def truncate_to(self, offset: int) -> None:
        if offset >= self.end_offset:
            return
        end = self.end_offset
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            end = self.segments.pop().base_offset
        self.active = self.segments[-1]
        index = self.active.find(offset) if offset < end else len(self.active.bases)
        self.end_offset = offset
        if index < len(self.active.bases):
            self.end_offset = max(min(offset, self.active.bases[index]), self.active.base_offset)
            self.active = self.segments[-1] = self.active.up_to(index)
        self.cleaned_to = min(self.cleaned_to, self.end_offset)
        if isinstance(self.active, CleanedSegment):
            self._begin_behind(self.active)

    def _begin_behind(self, cleaned: CleanedSegment) -> None:
        """Begin a new active segment, because the last segment is compacted and nothing can be appended to it."""
        if not cleaned.bases:
            self.segments.pop()
        self.active = Segment(self.end_offset, cleaned.created)
        self.segments.append(self.active)

    def copy(self) -> MemoryLog:
        """Returns a second log with the same batches, which changes independently. Both logs share the buffers of the
        batches."""
        made = MemoryLog(largest_segment=self.largest_segment)
        made.end_offset, made.cleaned_to = self.end_offset, self.cleaned_to
        made.segments = [segment.up_to(len(segment.bases)) for segment in self.segments]
        made.active = made.segments[-1]
        return made

    def start_at(self, offset: int, now: int) -> None:
        self.end_offset = self.cleaned_to = offset
        self.active = Segment(offset, now)
        self.segments = [self.active]

    def compact(self, cleaning: Cleaning[Segment], owner: Owner) -> Steps[None]:
        """Write the remaining records to new segments and replace the old segments, group by group."""
        yield from cleaning.learn()
        known, most = cleaning.known, min(cleaning.task.segment_bytes, self.largest_segment)
        for group in cleaning.groups(most):
            aborted_before = len(known.kept)
            made = CleanedSegment(group[0].base_offset, group[0].created)
            for segment in group:
                for _, batch in segment.batches(0):
                    left = yield from cleaning.left(batch)
                    if left:
                        made.keep(left)
            if not self._take(made, group):
                return  # a segment was removed by truncation or retention; the next round tries again
            following = self._segment_behind(made)
            self.cleaned_to = max(self.cleaned_to, min(cleaning.end, following.base_offset))
            owner.transactions.keep_aborted(made.base_offset, following.base_offset, known.kept[aborted_before:])

    def _take(self, made: CleanedSegment, group: Sequence[Segment]) -> bool:
        """Replace the old segments with the new segment, if all old segments still exist and are closed."""
        at = next((i for i, segment in enumerate(self.segments) if segment is group[0]), None)
        if at is None or self.segments[at : at + len(group)] != group or self.active in group:
            return False
        self.segments[at : at + len(group)] = [made]
        return True

    def _segment_behind(self, segment: Segment) -> Segment:
        return self.segments[self.segments.index(segment) + 1]

    # A log in memory survives every stop of a broker, because all brokers are one process

    def belongs_to(self, owner: Owner) -> Kept | None:
        """Returns None, because a log in memory stores no state that survives a restart."""
        return None

    def restart(self, mode: str, now: int) -> Kept | None:
        """Returns None: for a log in memory, the partition itself decides which records Kafka would find on its disk after the
        restart."""
        return None

    def keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Does nothing, because the partition keeps the leader epochs in memory."""

    def lower_start(self, offset: int) -> None:
        """Does nothing, because the partition keeps the log start offset in memory."""

    def delete(self) -> None:
        """Free the memory of all batches now: rows of the trace may refer to the deleted partition for a long time."""
        self.start_at(self.end_offset, self.active.created)

    def _find(self, offset: int) -> tuple[Segment, int]:
        """Returns two values for the first batch that ends at or after `offset`: its segment, and its index in the segment."""
        active = self.active
        if offset >= active.base_offset:
            return active, active.find(offset)
        at = self._segment_of(offset)
        segment = self.segments[at]
        index = segment.find(offset)
        while index == len(segment.bases) and segment is not active:
            at += 1  # compaction has left a gap at the end of the segment
            segment = self.segments[at]
            index = segment.find(offset)
        return segment, index

    def _segment_of(self, offset: int) -> int:
        segments = self.segments
        if len(segments) == 1 or offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(bisect_right(segments, offset, key=lambda s: s.base_offset) - 1, 0)
