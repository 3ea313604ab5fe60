"""What a partition asks of its log, whatever keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkawire.primitives import Buffer

if TYPE_CHECKING:
    from kafkawire.disk.indexes import AbortedTransaction
    from wirebroker.core.open_transactions import OpenTransactions
    from wirebroker.core.producers import Key


class Slice(NamedTuple):
    """Batches in one piece, the last perhaps cut off; `available` counts the bytes from its start to the end asked for."""

    data: memoryview
    available: int


EMPTY = Slice(memoryview(b""), 0)


class LogSegment(Protocol):
    """Consecutive batches. `created` is a time in ms since the epoch, `max_timestamp` the largest of the records'."""

    base_offset: int
    created: int
    size: int
    max_timestamp: int

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int, owned: bool) -> None:
        """Keep the batch under its offset; an `owned` buffer may be taken over. Raises OSError if it cannot be kept."""


class Kept(NamedTuple):
    """What a log has kept of its partition over a restart, beside the batches."""

    log_start_offset: int
    producers: dict[Key, bytes]
    aborted: Sequence[AbortedTransaction]
    epoch_starts: list[tuple[int, int]]
    """Leader epochs, each with the offset at which it began."""


class Owner(Protocol):
    """What a log that writes everything down needs to see of its partition."""

    log_start_offset: int

    @property
    def last_stable_offset(self) -> int:
        """Where the earliest open transaction begins, or what is not visible yet."""

    @property
    def producers(self) -> Mapping[Key, bytes]:
        """Packed states by producer id."""

    @property
    def transactions(self) -> OpenTransactions:
        """What is open and what was aborted."""


class Log(Protocol):
    """Segments in order. Offsets rise; in a compacted log some are missing."""

    @property
    def segments(self) -> Sequence[LogSegment]:
        """All of them; the last one is the active one."""

    @property
    def active(self) -> LogSegment:
        """The one that is written to."""

    end_offset: int
    """The offset that the next record will get."""

    largest_segment: int
    """Bytes beyond which a segment is closed, whatever segment.bytes says."""

    @property
    def size(self) -> int:
        """Bytes in all segments."""

    @property
    def cleaned_to(self) -> int:
        """Compaction may have left holes below this offset."""

    def append(self, batch: Buffer, records: int, leader_epoch: int, timestamp: int, owned: bool = False) -> int:
        """Store a batch of `records` offsets at the end; its base offset. Raises OSError if it cannot be stored."""

    def roll(self, now: int) -> None:
        """Begin a new segment at the end; a segment without batches is only begun anew."""

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> Slice:
        """At most `max_bytes` from the batch that holds `offset` on, below offset `limit`; the last batch may be cut off.

        Nothing comes if not even the first batch fits, but with `at_least_one` that comes even if it is larger. Less may
        come than there is.
        """

    def offset_after(self, offset: int, size: int) -> int:
        """An offset at or behind the end of `size` bytes that begin with the batch which holds `offset`."""

    def batches(self, start_offset: int = 0) -> Iterable[memoryview]:
        """Every batch from the one that holds `start_offset` on, one buffer each."""

    def batches_since(self, timestamp: int, from_offset: int) -> Iterable[memoryview]:
        """The batches, in order, whose largest timestamp is at least `timestamp`, from `from_offset` on."""

    def drop_segments_below(self, offset: int) -> None:
        """Forget whole segments that end at or below `offset`; the active one stays."""

    def truncate_to(self, offset: int) -> None:
        """Forget everything from the batch that holds `offset` on."""

    def start_at(self, offset: int, now: int) -> None:
        """Throw everything away and go on at `offset`."""

    # What a log in memory need not know

    def belongs_to(self, owner: Owner) -> Kept | None:
        """Whose log this is from now on; what it has kept of it, None if that is not its business."""

    def restart(self, mode: str, now: int) -> Kept | None:
        """The broker stops and starts again, "clean" or by "kill"; what is found then, as above."""

    def keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """The leader epochs have changed."""

    def delete(self) -> None:
        """The partition is deleted."""
