"""The interface between a partition and its log, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkawire.primitives import Buffer

if TYPE_CHECKING:
    from kafkawire.disk.indexes import AbortedTransaction
    from wirebroker.core.open_transactions import OpenTransactions
    from wirebroker.core.producers import Key


class Slice(NamedTuple):
    """Batches in one piece. The last batch may be incomplete; `available` counts the bytes from the piece's start to the
    requested end."""

    data: memoryview
    available: int


EMPTY = Slice(memoryview(b""), 0)
NO_TIMESTAMP = 2**63 - 1
"""The `first_timestamp` of a segment without timestamps: later than every timestamp."""


class LogSegment(Protocol):
    """Consecutive batches. Times are in ms since the epoch; `max_timestamp` is the largest timestamp of the records."""

    base_offset: int
    created: int
    size: int
    max_timestamp: int
    first_timestamp: int
    """The largest timestamp of the first batch, or NO_TIMESTAMP."""

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Append the batch. The log may keep an `owned` buffer. Raises OSError if the write fails."""


class Kept(NamedTuple):
    """The state of a partition, besides its batches, that its log has kept over a restart."""

    log_start_offset: int
    producers: dict[Key, bytes]
    aborted: Sequence[AbortedTransaction]
    epoch_starts: list[tuple[int, int]]
    """Leader epochs, each with the offset at which it began."""


class Owner(Protocol):
    """The partition, as far as a log on disk needs it."""

    log_start_offset: int

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction, or the high watermark if it is lower."""

    @property
    def producers(self) -> Mapping[Key, bytes]:
        """Packed states by producer id."""

    @property
    def transactions(self) -> OpenTransactions:
        """The open and the aborted transactions."""


class Log(Protocol):
    """Segments in order. Offsets rise; in a compacted log some are missing."""

    @property
    def segments(self) -> Sequence[LogSegment]:
        """All segments. The last segment is the active segment."""

    @property
    def active(self) -> LogSegment:
        """The segment to which the log appends."""

    end_offset: int
    """The offset of the next record."""

    largest_segment: int
    """The largest size of a segment in bytes, even if segment.bytes is larger."""

    @property
    def size(self) -> int:
        """Bytes in all segments."""

    @property
    def cleaned_to(self) -> int:
        """Compaction may have removed offsets before this offset."""

    def append(self, batch: Buffer, records: int, leader_epoch: int, timestamp: int, owned: bool = False) -> int:
        """Store a batch of `records` offsets at the end. Returns its base offset. Raises OSError if the batch cannot be
        stored."""

    def roll(self, now: int) -> None:
        """Begin a new segment at the end. An empty active segment only gets a new time."""

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> Slice:
        """Returns at most `max_bytes` below offset `limit`, beginning with the batch that holds `offset`. The last batch may
        be incomplete.

        Returns nothing if not even the first batch fits; with `at_least_one` the first batch is returned even then. A slice
        may end before the log does.
        """

    def offset_after(self, offset: int, size: int) -> int:
        """Returns an offset at or after the end of `size` bytes from the batch that holds `offset`."""

    def batches(self, start_offset: int = 0) -> Iterable[memoryview]:
        """Returns every batch from the batch that holds `start_offset`, one buffer each."""

    def batches_since(self, timestamp: int, from_offset: int) -> Iterable[memoryview]:
        """Returns the batches from `from_offset`, in order, whose largest timestamp is at least `timestamp`."""

    def drop_segments_below(self, offset: int) -> None:
        """Forget whole segments that end at or below `offset`, except the active segment."""

    def empty(self, offset: int, now: int, *, closes: bool) -> None:
        """Start the log at `offset`, which is its end if all records are replicated, and free the space before.

        On disk, records stay in the active segment, as after DeleteRecords, because a new segment takes a millisecond. With
        `closes`, close the segment, so that a restart finds the producers' states as they are now. Raises OSError.
        """

    def truncate_to(self, offset: int) -> None:
        """Forget the batch that holds `offset` and all later batches."""

    def start_at(self, offset: int, now: int) -> None:
        """Delete everything, and continue at `offset`."""

    # For a log on disk

    def belongs_to(self, owner: Owner) -> Kept | None:
        """Set the partition as owner. Returns the state that the log has kept; None for a log in memory."""

    def restart(self, mode: str, now: int) -> Kept | None:
        """Stop ("clean" or with a "kill") and start. Returns the state that the log has kept; None for a log in memory."""

    def keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Replace the leader epochs after a change."""

    def delete(self) -> None:
        """Delete the log."""
