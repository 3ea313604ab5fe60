"""Compares a log's leader epochs in the checkpoint with the leader epochs in the batches (LeaderEpochFileCache).

The CRC of a batch does not cover the batch's leader epoch, and Kafka's checkpoint has no CRC, so the checkpoint and the batches
are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from math import inf
from pathlib import Path

from kafkawire.batches import BatchHeader
from kafkawire.disk.checkpoints import LEADER_EPOCHS, read_epochs
from kafkawire.disk.damage import DamagedFile


class LeaderEpochs:
    """The leader epochs of a partition's folder, each with its first offset. Raises DamagedFile.

    The caller passes the log's batches in order, and may leave some out. Epochs are taken from the batches if the
    checkpoint is empty, or if the broker may have crashed before it wrote the checkpoint.
    """

    def __init__(self, folder: Path, first_offset: int, latest: int | None, *, clean: bool) -> None:
        """`first_offset` is the offset at which the log's first segment begins, and `latest` is the last epoch in the
        metadata."""
        self._first_offset = first_offset
        self._path = folder / LEADER_EPOCHS
        self.written = read_epochs(self._path)
        """The epochs in the checkpoint."""
        self.known = list(self.written)
        self.are_lost = not self.known
        """Tells whether the checkpoint has no epochs. Then all epochs are taken from the batches."""
        if clean and self.known:
            self._largest: float = self.known[-1][0]
        else:
            self._largest = inf if latest is None else latest
        self._clean = clean
        if any(not (one[0] < other[0] and one[1] < other[1]) for one, other in pairwise(self.known)):
            raise DamagedFile(self._path, f"the leader epochs and their offsets do not rise: {self.known}. {_ADVICE}")

    def follow(self, path: Path, position: int, header: BatchHeader) -> None:
        """Check this batch of the log, and add its epoch if the epoch is new."""
        self._learn(header.partition_leader_epoch, header.base_offset)
        if why := self.damage_of(header):
            raise DamagedFile(path, why, position)

    def _learn(self, epoch: int, base: int) -> None:
        known = self.known
        if epoch >= 0 and (not known or (base < known[0][1] and epoch <= known[0][0])):
            known[: 1 if known and epoch == known[0][0] else 0] = [(epoch, self._first_offset)]
        elif known and base >= known[-1][1] and known[-1][0] < epoch <= self._largest:
            known.append((epoch, base))

    def damage_of(self, header: BatchHeader) -> str:
        """Returns a sentence if the batch's leader epoch differs from the known leader epoch of the batch's offsets, else an
        empty string."""
        known, epoch, base = self.known, header.partition_leader_epoch, header.base_offset
        at = bisect_right(known, base, key=_start) - 1
        crosses = at + 1 < len(known) and known[at + 1][1] <= header.last_offset
        if epoch == (known[at][0] if at >= 0 else NO_EPOCH) and not crosses:
            return ""
        return f"the batch of offset {base} carries the leader epoch {epoch}, and {self._path} says {known}. {_ADVICE}"

    def up_to(self, end: int) -> list[tuple[int, int]]:
        """Returns the epochs that began before `end`. After a clean stop, raises DamagedFile if an epoch began after `end`."""
        if self._clean and self.known and self.known[-1][1] > end:
            raise DamagedFile(self._path, f"an epoch begins at {self.known[-1][1]}, and the log ends at {end}. {_ADVICE}")
        return [each for each in self.known if each[1] < end]


NO_EPOCH = -1
"""The leader epoch in batches that were written before Kafka had leader epochs (RecordBatch.NO_PARTITION_LEADER_EPOCH)."""
_ADVICE = "Restore the file from a copy; if it is the checkpoint, remove it: the epochs are then taken from the batches"


def _start(known: tuple[int, int]) -> int:
    return known[1]
