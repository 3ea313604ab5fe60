"""The transactions of one partition: open transactions, ended transactions, and transactions whose first batch is not stored
yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from kafkawire.disk.indexes import AbortedTransaction
from wirebroker.core.producers import Verification


class OpenTransactions:
    """The data in Kafka's ongoingTxns, unreplicatedTxns, TransactionIndex and verificationStates of one partition."""

    __slots__ = ("_aborted", "_first_offsets", "_unreplicated", "verifications")

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}
        """The open transactions by producer id, in the order in which they began (this is also the order of their first
        offsets)."""
        self._aborted: list[AbortedTransaction] = []
        self._unreplicated: list[tuple[int, int]] = []
        """The first offset and the marker's offset of each ended transaction whose marker is not replicated yet."""
        self.verifications: dict[int, Verification] = {}

    def first_offset(self) -> int | None:
        """Returns the first offset of the earliest open transaction, or None if no transaction is open."""
        return next(iter(self._first_offsets.values()), None)

    def has(self, producer_id: int, offset: int) -> bool:
        """Tells whether the producer's record at this offset belongs to an open transaction."""
        first = self._first_offsets.get(producer_id)
        return first is not None and offset >= first

    def first_unstable(self) -> int | None:
        """Returns the smallest first offset of all transactions that are open or whose marker is not replicated yet. Returns
        None if there are no such transactions."""
        if not self._first_offsets and not self._unreplicated:
            return None
        first = self.first_offset()
        if self._unreplicated:
            earliest = min(self._unreplicated)[0]
            first = earliest if first is None else min(first, earliest)
        return first

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Register that the first batch of a transaction was stored."""
        self._first_offsets[producer_id] = first_offset

    def end(
        self, producer_id: int, marker_offset: int, *, aborted: bool, replicated: bool = True, keeps_empty: bool = False
    ) -> None:
        """Register that the transaction's marker was stored. Without `keeps_empty`, does nothing if the transaction has no
        batch in this partition. With `keeps_empty`, the marker then counts as the transaction's first batch."""
        first = self._first_offsets.pop(producer_id, marker_offset if keeps_empty else None)
        if first is None:
            return
        if not replicated:
            self._unreplicated.append((first, marker_offset))
        if aborted:
            following = self.first_offset()
            stable = marker_offset + 1 if following is None else following
            self._aborted.append(AbortedTransaction(producer_id, first, marker_offset, stable))

    def aborted_between(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions that overlap the offsets from `start` up to `stop`
        (TransactionIndex.collectAbortedTxns)."""
        found = []
        for aborted in self._aborted[bisect_left(self._aborted, start, key=lambda a: a.last_offset) :]:
            if aborted.first_offset < stop:
                found.append(aborted)
            if aborted.last_stable_offset >= stop:
                break
        return found

    def replicated_up_to(self, high_watermark: int) -> None:
        """Follow a move of the high watermark. A transaction whose marker is before the high watermark is stable."""
        self._unreplicated = [ended for ended in self._unreplicated if ended[1] >= high_watermark]

    def copy(self) -> OpenTransactions:
        """Returns an independent copy without `verifications`, which only a leader has."""
        made = OpenTransactions()
        made._first_offsets, made._aborted = dict(self._first_offsets), list(self._aborted)
        made._unreplicated = list(self._unreplicated)
        return made

    def ended_between(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions whose markers are at the offsets from `start` up to `stop`."""
        first, end = (bisect_left(self._aborted, each, key=lambda a: a.last_offset) for each in (start, stop))
        return self._aborted[first:end]

    def keep_aborted(self, start: int, stop: int, left: Iterable[AbortedTransaction]) -> None:
        """Forget the aborted transactions whose markers compaction has removed. Compaction has worked from offset `start` up to
        `stop`. There, only the transactions in `left` still have a marker.

        If a Fetch response named an aborted transaction without a marker, a consumer would skip all later records of the
        producer.
        """
        first, end = (bisect_left(self._aborted, each, key=lambda a: a.last_offset) for each in (start, stop))
        self._aborted[first:end] = left

    def forget_below(self, offset: int) -> None:
        """Forget aborted transactions before `offset`, the base offset of the first segment that is left."""
        del self._aborted[: bisect_left(self._aborted, offset, key=lambda a: a.last_offset)]

    def clear(self) -> None:
        """Forget all transactions that have batches, because all records were deleted. `verifications` stay, because they
        belong to transactions that have no batch yet."""
        self._first_offsets.clear()
        self._aborted.clear()
        self._unreplicated.clear()

    def truncate(self, end_offset: int, open_ones: dict[int, int]) -> None:
        """Forget the transactions that ended after `end_offset`, the new end of the log. `open_ones` has the first offsets of
        the transactions that are open according to the producers' states."""
        del self._aborted[bisect_left(self._aborted, end_offset, key=lambda a: a.last_offset) :]
        self.restart(open_ones)

    def restore_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace the known aborted transactions. `aborted` is in the order of the markers' offsets."""
        self._aborted = list(aborted)

    def restart(self, open_ones: dict[int, int]) -> None:
        """Continue after a restart with the transactions that are open according to the producers' states. Forget
        `verifications`."""
        self.reopen(open_ones)
        self._unreplicated = []
        self.verifications.clear()

    def reopen(self, open_ones: dict[int, int]) -> None:
        """Replace the open transactions. `open_ones` has their first offsets by producer id."""
        self._first_offsets = dict(sorted(open_ones.items(), key=lambda one: one[1]))
