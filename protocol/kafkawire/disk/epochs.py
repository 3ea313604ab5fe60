"""The leader epochs of a log, as they are written down and as its batches carry them (LeaderEpochFileCache).

A batch's leader epoch lies outside its CRC, and the checkpoint has none: each is held against the other.
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
    """The epochs of a partition's folder, each with the offset at which it begins. Raises DamagedFile.

    Batches are shown to it in order, all or some. What the checkpoint does not have is taken from them, if it has
    nothing, or if a crash may have come before it was written.
    """

    def __init__(self, folder: Path, first_offset: int, latest: int | None, *, clean: bool) -> None:
        """Of a log whose first segment begins at `first_offset`; the metadata knows of no later epoch than the `latest`."""
        self._first_offset = first_offset
        self._path = folder / LEADER_EPOCHS
        self.known = read_epochs(self._path)
        self.are_lost = not self.known
        """Whether they can only be taken from the batches."""
        if self.are_lost:
            self._largest: float = inf
        elif clean:
            self._largest = self.known[-1][0]
        else:
            self._largest = inf if latest is None else latest
        self._clean = clean
        if any(not (one[0] < other[0] and one[1] < other[1]) for one, other in pairwise(self.known)):
            raise DamagedFile(self._path, f"epochs and offsets do not rise: {self.known}. {_ADVICE}")

    def follow(self, path: Path, position: int, header: BatchHeader) -> None:
        """This batch is in the log at this position."""
        epoch, base = header.partition_leader_epoch, header.base_offset
        if epoch < 0:
            return
        known = self.known
        at = bisect_right(known, base, key=_start) - 1
        following = known[at + 1] if at + 1 < len(known) else None
        if at < 0 and (following is None or epoch <= following[0]):
            known[: 1 if following and epoch == following[0] else 0] = [(epoch, self._first_offset)]
        elif following is None and known[at][0] < epoch <= self._largest:
            known.append((epoch, base))
        elif epoch != known[at][0] or (following and following[1] <= header.last_offset):
            why = f"the batch of offset {base} carries the leader epoch {epoch}, and {self._path} says {known}. {_ADVICE}"
            raise DamagedFile(path, why, position)

    def up_to(self, end: int) -> list[tuple[int, int]]:
        """Those that began below the end of the log. Raises DamagedFile if one began above it and nothing was cut off."""
        if self._clean and self.known and self.known[-1][1] > end:
            raise DamagedFile(self._path, f"an epoch begins at {self.known[-1][1]}, and the log ends at {end}. {_ADVICE}")
        return [each for each in self.known if each[1] < end]


_ADVICE = "Restore the file from a copy; if it is the checkpoint, remove it: the epochs are then taken from the batches"


def _start(known: tuple[int, int]) -> int:
    return known[1]
