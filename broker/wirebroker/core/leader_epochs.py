"""The offsets at which the leader epochs begin in a partition's log (Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from collections.abc import Iterable


class LeaderEpochs:
    """Leader epochs with the offsets at which they begin, oldest first."""

    __slots__ = ("starts",)

    def __init__(self, starts: Iterable[tuple[int, int]]) -> None:
        self.starts = list(starts)

    @property
    def latest_start(self) -> int:
        """The offset at which the latest epoch begins."""
        return self.starts[-1][1]

    def begin(self, epoch: int, offset: int) -> None:
        """Begin a new epoch at `offset`. If the latest epoch has no records, the new epoch replaces it."""
        if self.starts and self.starts[-1][1] == offset:
            self.starts.pop()
        self.starts.append((epoch, offset))

    def truncate(self, end_offset: int) -> None:
        """Forget the epochs that begin after `end_offset`, because the log now ends there."""
        while len(self.starts) > 1 and self.starts[-1][1] > end_offset:
            self.starts.pop()

    def at(self, offset: int) -> int:
        """Returns the leader epoch of the record at `offset`."""
        return next((epoch for epoch, start in reversed(self.starts) if start <= offset), self.starts[0][0])

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Returns two values: the largest known epoch that is at most `epoch`, and its end offset.

        If `epoch` is lower than all known epochs, the two values are `epoch` and the offset at which the first known epoch
        begins.
        """
        end = log_end_offset
        for known, start in reversed(self.starts):
            if known <= epoch:
                return known, end
            end = start
        return epoch, end
