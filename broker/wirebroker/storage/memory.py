"""A partition's log in memory: segments of whole batches, in buffers that a Fetch can send without copying.

Small batches are copied once, into a chunk that they share with their neighbours, so that a million of them cost no
million objects; a large batch keeps the buffer it came in. A chunk is never moved or shrunk, so a `memoryview` handed
out to a slow reader stays valid whatever happens to the log meanwhile.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kafkawire.primitives import Buffer
from wirebroker.storage.arena import allocate
from wirebroker.storage.interface import EMPTY, Kept, Owner, Slice

FIRST_CHUNK = 16 * 1024
LARGEST_CHUNK = 4 * 1024 * 1024
OWN_BUFFER_FROM = 100 * 1024
"""Bytes from which on a batch is kept in a buffer of its own."""
INDEX_INTERVAL = 4096
"""Bytes between two entries of Kafka's index of offsets."""
_START = struct.Struct(">qii")


class Segment:
    """Consecutive batches. `created` is the time of the first append, in ms since the epoch."""

    __slots__ = (
        "_at", "_capacity", "_chunk", "_next_chunk", "_starts", "_views", "base_offset", "bases", "created",
        "max_timestamp", "positions", "size", "timestamps",
    )  # fmt: skip

    def __init__(self, base_offset: int, created: int, chunk: int = FIRST_CHUNK) -> None:
        self.base_offset = base_offset
        self.created = created
        self.size = 0
        self.max_timestamp = -1
        self.bases = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        self._starts: list[int] = []
        self._views: list[memoryview] = []
        self._chunk = memoryview(b"")
        self._at = self._capacity = 0
        self._next_chunk = chunk

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Keep the batch under its offset; an `owned` buffer is taken over if it is large, any other is copied."""
        size = len(batch)
        if owned and size >= OWN_BUFFER_FROM:
            self._begin(memoryview(batch))
            chunk, at = self._chunk, 0
        else:
            if self._at + size > self._capacity:
                self._begin(allocate(max(self._next_chunk, size)))
                self._next_chunk = min(self._next_chunk * 4, LARGEST_CHUNK)
            chunk, at = self._chunk, self._at
            chunk[at : at + size] = batch
        self._at = at + size
        # The base offset and the leader epoch lie outside the CRC and are the broker's to write.
        _START.pack_into(chunk, at, base_offset, size - 12, leader_epoch)
        self.bases.append(base_offset)
        self.positions.append(self.size)
        self.timestamps.append(timestamp)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.size += size

    def _begin(self, chunk: memoryview) -> None:
        self._starts.append(self.size)
        self._views.append(chunk)
        self._chunk, self._at, self._capacity = chunk, 0, len(chunk)

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes from position `start` up to `stop`, or up to the end of the buffer that holds `start`."""
        index = bisect_right(self._starts, start) - 1
        base = self._starts[index]
        held = self._starts[index + 1] - base if index + 1 < len(self._starts) else self.size - base
        return self._views[index][start - base : min(stop - base, held)]

    def batch(self, index: int) -> memoryview:
        """The bytes of the batch with this index."""
        start = self.positions[index]
        stop = self.positions[index + 1] if index + 1 < len(self.positions) else self.size
        return self.view(start, stop)

    def truncate(self, index: int) -> None:
        """Drop the batch with this index and all after it."""
        self.size = self.positions[index]
        del self.bases[index:], self.positions[index:], self.timestamps[index:]
        while self._starts and self._starts[-1] >= self.size:
            self._starts.pop()
            self._views.pop()
        # What follows goes into a new chunk: a slow reader may still hold the bytes that were cut off.
        self._capacity = 0
        self.max_timestamp = max(self.timestamps, default=-1)


class MemoryLog:
    """Segments in order; offsets are dense from the first batch to `end_offset`."""

    __slots__ = ("active", "end_offset", "segments")

    def __init__(self, base_offset: int = 0, now: int = 0) -> None:
        self.end_offset = base_offset
        self.active = Segment(base_offset, now)
        self.segments = [self.active]

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def cleaned_to(self) -> int:
        """Nothing is compacted in memory."""
        return 0

    def append(self, batch: Buffer, records: int, leader_epoch: int, timestamp: int, owned: bool = False) -> int:
        """Store a batch of `records` offsets at the end; its base offset."""
        base_offset = self.end_offset
        self.active.append(batch, base_offset, leader_epoch, timestamp, owned)
        self.end_offset = base_offset + records
        return base_offset

    def roll(self, now: int) -> None:
        """Begin a new segment at the end; a segment without batches is only begun anew."""
        if not self.active.bases:
            self.active.created = now
            return
        self.active = Segment(self.end_offset, now, self.active._next_chunk)
        self.segments.append(self.active)

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> Slice:
        """At most `max_bytes` from the batch that holds `offset` on, below offset `limit`; the last batch may be cut off.

        What is returned ends with its segment or its buffer at the latest. Nothing is returned if not even the first
        batch fits, but with `at_least_one` that comes even if it is larger.
        """
        if offset >= limit:
            return EMPTY
        segment = self.segments[self._segment_of(offset)]
        first = bisect_right(segment.bases, offset) - 1
        if first < 0:
            return EMPTY
        start = segment.positions[first]
        stop = segment.size
        if limit < self.end_offset and segment.bases[-1] >= limit:
            stop = segment.positions[bisect_right(segment.bases, limit - 1)]
        available = stop - start
        if available > max_bytes:
            behind = segment.positions[first + 1] if first + 1 < len(segment.positions) else segment.size
            if max_bytes < behind - start:
                if not at_least_one:
                    return Slice(EMPTY.data, available)
                max_bytes = behind - start
            stop = start + max_bytes
        return Slice(segment.view(start, stop), available)

    def offset_after(self, offset: int, size: int) -> int:
        """An offset at or behind the end of `size` bytes that begin with the batch which holds `offset`.

        Kafka finds it in a sparse index, and so a little late; with this one it is late by at most 4 KiB.
        """
        segment = self.segments[self._segment_of(offset)]
        first = bisect_right(segment.bases, offset) - 1
        if first < 0:
            return self.end_offset
        behind = bisect_left(segment.positions, segment.positions[first] + size + INDEX_INTERVAL)
        if behind < len(segment.bases):
            return segment.bases[behind]
        following = self.segments.index(segment) + 1
        return self.segments[following].base_offset if following < len(self.segments) else self.end_offset

    def batches(self, start_offset: int = 0) -> list[memoryview]:
        """Every batch from the one that holds `start_offset` on, one buffer each."""
        found = []
        for segment in self.segments[self._segment_of(start_offset) :]:
            first = max(bisect_right(segment.bases, start_offset) - 1, 0)
            found += [segment.batch(i) for i in range(first, len(segment.bases))]
        return found

    def batches_since(self, timestamp: int, from_offset: int) -> list[memoryview]:
        """The batches, in order, whose largest timestamp is at least `timestamp`, from `from_offset` on."""
        found = []
        for segment in self.segments[self._segment_of(from_offset) :]:
            if segment.max_timestamp >= timestamp:
                first = max(bisect_right(segment.bases, from_offset) - 1, 0)
                stamps = segment.timestamps
                found += [segment.batch(i) for i in range(first, len(stamps)) if stamps[i] >= timestamp]
        return found

    def drop_segments_below(self, offset: int) -> None:
        """Forget whole segments that end at or below `offset`; the active one stays."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
            del self.segments[0]

    def truncate_to(self, offset: int) -> None:
        """Forget everything from the batch that holds `offset` on."""
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self.segments.pop()
        self.active = self.segments[-1]
        index = bisect_right(self.active.bases, offset - 1)
        if index < len(self.active.bases):
            self.end_offset = self.active.bases[index]
            self.active.truncate(index)
        else:
            self.end_offset = min(self.end_offset, offset)

    def start_at(self, offset: int, now: int) -> None:
        """Throw everything away and go on at `offset`."""
        self.end_offset = offset
        self.active = Segment(offset, now)
        self.segments = [self.active]

    # A log in memory is not lost by what the brokers go through, as they are one process

    def belongs_to(self, owner: Owner) -> Kept | None:
        """Nothing was kept."""
        return None

    def restart(self, mode: str, now: int) -> Kept | None:
        """What Kafka would find on its disk is for the partition to say."""
        return None

    def keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Nothing is written down."""

    def delete(self) -> None:
        """Nothing is left behind."""

    def _segment_of(self, offset: int) -> int:
        segments = self.segments
        if len(segments) == 1 or offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(bisect_right(segments, offset, key=lambda s: s.base_offset) - 1, 0)
