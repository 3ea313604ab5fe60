"""The interface between a partition and its log, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkawire.primitives import Buffer, Pieces, in_one_buffer

if TYPE_CHECKING:
    from kafkawire.disk.indexes import AbortedTransaction
    from wirebroker.core.open_transactions import OpenTransactions
    from wirebroker.core.producers import Key


class Slice(NamedTuple):
    """Consecutive batches. The last batch may be incomplete. `available` is the number of bytes from the first batch to the
    requested end of the log."""

    records: memoryview | Pieces
    available: int

    @property
    def data(self) -> memoryview:
        """The batches in one buffer. If the batches lie in several buffers, the property copies them."""
        return in_one_buffer(self.records)


EMPTY = Slice(memoryview(b""), 0)
NO_TIMESTAMP = 2**63 - 1
"""The `first_timestamp` of a segment without timestamps. This value is larger than every timestamp."""


class LogSegment(Protocol):
    """A segment of a log. Times are in ms since the epoch. `max_timestamp` is the largest timestamp of the records."""

    base_offset: int
    created: int
    size: int
    max_timestamp: int
    first_timestamp: int
    """The largest timestamp of the first batch, or NO_TIMESTAMP."""

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Append the batch. If `owned` is set, the segment may keep the buffer instead of a copy. Raises OSError if the write
        fails."""


class Kept(NamedTuple):
    """A log on disk stores this state of a partition in addition to the batches, so that the state survives a restart."""

    log_start_offset: int
    producers: dict[Key, bytes]
    aborted: Sequence[AbortedTransaction]
    epoch_starts: list[tuple[int, int]]
    """The leader epochs, each with the offset at which the epoch began."""


class Owner(Protocol):
    """The part of a partition that its log on disk uses."""

    log_start_offset: int

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction, or the high watermark if the high watermark is lower."""

    @property
    def producers(self) -> Mapping[Key, bytes]:
        """The packed state of each producer, by producer id."""

    @property
    def transactions(self) -> OpenTransactions:
        """The open and the aborted transactions."""


class Log(Protocol):
    """The log of a partition: segments in the order of their offsets. A compacted log may lack some offsets."""

    @property
    def segments(self) -> Sequence[LogSegment]:
        """All segments. The last segment is the active segment."""

    @property
    def active(self) -> LogSegment:
        """The segment to which the log appends."""

    end_offset: int
    """The offset of the next record."""

    last_epoch: int
    """The leader epoch of the last batch that `append` has stored since the start, or −1."""

    largest_segment: int
    """A segment has at most this size in bytes, even if segment.bytes is larger."""

    @property
    def size(self) -> int:
        """The number of bytes in all segments."""

    @property
    def cleaned_to(self) -> int:
        """The offset up to which the log is compacted. Before this offset, records may be missing."""

    def append(self, batch: Buffer, records: int, leader_epoch: int, timestamp: int, owned: bool = False) -> int:
        """Append a batch. `records` is the number of offsets that the batch takes. Returns the batch's base offset. Raises
        OSError if the batch cannot be stored."""

    def roll(self, now: int) -> None:
        """Close the active segment and begin a new one. An empty active segment stays, and only its time changes."""

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> Slice:
        """Returns at most `max_bytes` of batches: starts with the batch that contains `offset`, and stops before the offset
        `limit`. The last batch may be incomplete.

        If the first batch is larger than `max_bytes`, returns this batch if `at_least_one` is set, and otherwise nothing. The
        slice may be shorter than requested.
        """

    def offset_after(self, offset: int, size: int) -> int:
        """Returns an offset that is at least `size` bytes after the start of the batch that contains `offset`."""

    def batches(self, start_offset: int = 0) -> Iterable[memoryview]:
        """Returns all batches, beginning with the batch that contains `start_offset`. Each batch is a separate buffer."""

    def batches_since(self, timestamp: int, from_offset: int) -> Iterable[memoryview]:
        """Returns the batches at or after `from_offset` whose largest timestamp is at least `timestamp`, in order."""

    def drop_segments_below(self, offset: int) -> None:
        """Delete all segments that end at or before `offset`, except the active segment."""

    def empty(self, offset: int, now: int, *, closes: bool) -> None:
        """Delete the records before `offset`. If all records are replicated, the caller passes the end of the log as `offset`.
        Raises OSError.

        A log on disk leaves the records in the active segment, as after DeleteRecords, because creating a new segment takes a
        millisecond. With `closes`, the log closes the active segment, so that a restart finds the present states of the
        producers.
        """

    def truncate_to(self, offset: int) -> None:
        """Delete the batch that contains `offset`, and all later batches."""

    def start_at(self, offset: int, now: int) -> None:
        """Delete all batches. The next batch gets the base offset `offset`."""

    # Only for a log on disk

    def belongs_to(self, owner: Owner) -> Kept | None:
        """Set the partition to which the log belongs. Returns the state that the log has stored, or None if the log is in
        memory."""

    def restart(self, mode: str, now: int) -> Kept | None:
        """Close the log as in a "clean" shutdown or a "kill", and open it again. Returns the state that the log has stored, or
        None if the log is in memory."""

    def keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Store the leader epochs after they have changed."""

    def lower_start(self, offset: int) -> None:
        """The partition's log start offset has become `offset`. If the log has stored a later offset, replace it."""

    def delete(self) -> None:
        """Delete the log."""
