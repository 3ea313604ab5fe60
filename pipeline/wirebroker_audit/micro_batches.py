"""What the micro-batches wrote down, in few folders however many they were.

    micro=0-63   micro=64-71   micro=72   micro=73

A folder is named by the micro-batches that it holds. Neighbours of about the same breadth become one, so that each row is
written again a few times at most, and what is read for each micro-batch does not become more and more files. The one is
written aside and renamed; from then on the folders that lie within its range count no more, whether they are deleted yet or
not. So it does not matter at which moment it ends: there is nothing to be lost, and nothing counts twice. No Spark here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

BREADTH = 8
"""So many neighbours become one."""
_NAME = re.compile(r"micro=(\d+)(?:-(\d+))?")


class Kept(NamedTuple):
    """A folder, and the first and the last micro-batch that it holds."""

    first: int
    last: int
    path: Path

    @property
    def level(self) -> int:
        """How often its rows were written again, about."""
        level, breadth = 0, self.last - self.first + 1
        while breadth >= BREADTH:
            level, breadth = level + 1, breadth // BREADTH
        return level


class Shelf:
    """The folders in one place; what is being written is in `aside`, on the same file system."""

    def __init__(self, place: Path, aside: Path) -> None:
        self._place, self._aside = place, aside

    def path(self, micro: int) -> Path:
        """Where a micro-batch is to be written down; written again it replaces what is there."""
        return self._place / f"micro={micro}"

    def kept(self) -> list[Kept]:
        """The folders that count, in order."""
        return self._sorted()[0]

    def tidy(self, before: int, write: Callable[[list[Kept], Path], None]) -> None:
        """Join what can be joined of the micro-batches before this one, which are done and will not be done again."""
        self._delete()
        while chosen := self._next(before):
            shutil.rmtree(self._aside, ignore_errors=True)
            write(chosen, self._aside)
            self._aside.rename(self._place / f"micro={chosen[0].first}-{chosen[-1].last}")
            self._delete()

    def _next(self, before: int) -> list[Kept]:
        done = [each for each in self.kept() if each.last < before]
        alike = (list(group) for _, group in groupby(done, lambda each: each.level))
        return next((group for group in alike if len(group) >= BREADTH), [])

    def _delete(self) -> None:
        for each in self._sorted()[1]:
            shutil.rmtree(each.path)

    def _sorted(self) -> tuple[list[Kept], list[Kept]]:
        """The folders that count, and those that lie within another one."""
        counting: list[Kept] = []
        others: list[Kept] = []
        for each in sorted(self._found(), key=lambda each: (each.first, -each.last)):
            is_within = bool(counting) and each.last <= counting[-1].last
            (others if is_within else counting).append(each)
        return counting, others

    def _found(self) -> list[Kept]:
        matches = [(path, _NAME.fullmatch(path.name)) for path in self._place.glob("micro=*")]
        return [Kept(int(match[1]), int(match[2] or match[1]), path) for path, match in matches if match]
