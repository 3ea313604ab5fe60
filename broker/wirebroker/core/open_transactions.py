"""The transactions of one partition: which are open, which have ended, and whose first batch is awaited."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from kafkawire.disk.indexes import AbortedTransaction
from wirebroker.core.producers import Verification


class OpenTransactions:
    """Kafka's ongoingTxns, unreplicatedTxns, TransactionIndex and verificationStates of one partition."""

    __slots__ = ("_aborted", "_first_offsets", "_unreplicated", "verifications")

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}
        """By producer id, in the order in which they began, which is that of their offsets."""
        self._aborted: list[AbortedTransaction] = []
        self._unreplicated: list[tuple[int, int]] = []
        """First offset and marker's offset of those that have ended, but whose marker consumers cannot see yet."""
        self.verifications: dict[int, Verification] = {}

    def first_offset(self) -> int | None:
        """Where the earliest open transaction begins; None if none is open."""
        return next(iter(self._first_offsets.values()), None)

    def first_unstable(self) -> int | None:
        """Where what read_committed must not show begins: an open transaction, or one whose marker is not replicated."""
        first = self.first_offset()
        if self._unreplicated:
            earliest = min(self._unreplicated)[0]
            first = earliest if first is None else min(first, earliest)
        return first

    def begin(self, producer_id: int, first_offset: int) -> None:
        """The first batch of a transaction was stored."""
        self._first_offsets[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, *, aborted: bool, replicated: bool = True) -> None:
        """The marker was stored, and perhaps all have it. A transaction without a batch here leaves no trace."""
        first = self._first_offsets.pop(producer_id, None)
        if first is None:
            return
        if not replicated:
            self._unreplicated.append((first, marker_offset))
        if aborted:
            following = self.first_offset()
            stable = marker_offset + 1 if following is None else following
            self._aborted.append(AbortedTransaction(producer_id, first, marker_offset, stable))

    def aborted_between(self, start: int, stop: int) -> list[AbortedTransaction]:
        """What was aborted and touches the offsets from `start` up to `stop` (TransactionIndex.collectAbortedTxns)."""
        found = []
        for aborted in self._aborted[bisect_left(self._aborted, start, key=lambda a: a.last_offset) :]:
            if aborted.first_offset < stop:
                found.append(aborted)
            if aborted.last_stable_offset >= stop:
                break
        return found

    def replicated_up_to(self, high_watermark: int) -> None:
        """Consumers see the log up to here: what has ended before it is stable."""
        self._unreplicated = [ended for ended in self._unreplicated if ended[1] >= high_watermark]

    def copy(self) -> OpenTransactions:
        """The same transactions, which go their own way from here; only a leader awaits first batches."""
        made = OpenTransactions()
        made._first_offsets, made._aborted = dict(self._first_offsets), list(self._aborted)
        made._unreplicated = list(self._unreplicated)
        return made

    def ended_between(self, start: int, stop: int) -> list[AbortedTransaction]:
        """What was aborted by a marker at the offsets from `start` up to `stop`."""
        first, behind = (bisect_left(self._aborted, each, key=lambda a: a.last_offset) for each in (start, stop))
        return self._aborted[first:behind]

    def keep_aborted(self, start: int, stop: int, left: Iterable[AbortedTransaction]) -> None:
        """Of what was aborted by a marker at the offsets from `start` up to `stop`, compaction has left only these.

        Who was told of one whose marker is gone would skip all that the producer wrote behind it.
        """
        first, behind = (bisect_left(self._aborted, each, key=lambda a: a.last_offset) for each in (start, stop))
        self._aborted[first:behind] = left

    def forget_below(self, offset: int) -> None:
        """The log begins at `offset` now."""
        del self._aborted[: bisect_left(self._aborted, offset, key=lambda a: a.last_offset)]

    def truncate(self, end_offset: int, open_ones: dict[int, int]) -> None:
        """The log ends at `end_offset` now; these are open by the producers' states."""
        del self._aborted[bisect_left(self._aborted, end_offset, key=lambda a: a.last_offset) :]
        self.restart(open_ones)

    def restore_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """These, in the order of their markers, are all that were aborted."""
        self._aborted = list(aborted)

    def restart(self, open_ones: dict[int, int]) -> None:
        """Go on with the transactions that are open by the producers' states; who was awaited is forgotten."""
        self._first_offsets = dict(sorted(open_ones.items(), key=lambda one: one[1]))
        self._unreplicated = []
        self.verifications.clear()
