"""Joins the folders of micro-batches, so that only a few remain. No Spark here.

    micro=0-63   micro=64-71   micro=72   micro=73

A folder is named after the micro-batches that it holds. Only adjacent folders of similar size are joined, so a large folder is
not rewritten for each small one. Each row is rewritten only a few times, and few files remain to read. The joined folder is
written elsewhere and then renamed. After this, the earlier folders no longer count, even if they still exist. The process may
end at any moment: no batch is lost or counted twice.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

BREADTH = 8
"""This many adjacent folders are joined."""
_NAME = re.compile(r"micro=(\d+)(?:-(\d+))?")


class Folder(NamedTuple):
    """A folder, and the first and the last micro-batch that it holds."""

    first: int
    last: int
    path: Path

    @property
    def level(self) -> int:
        """How many times, approximately, the folder's rows were rewritten."""
        level, breadth = 0, self.last - self.first + 1
        while breadth >= BREADTH:
            level, breadth = level + 1, breadth // BREADTH
        return level


class MicroBatches:
    """The folders of micro-batches under `place`. A joined folder is first written to `aside`, on the same file system."""

    def __init__(self, place: Path, aside: Path) -> None:
        self._place, self._aside = place, aside

    def path(self, micro: int) -> Path:
        """Returns the folder for a micro-batch; a repeated micro-batch replaces it."""
        return self._place / f"micro={micro}"

    def current(self) -> list[Folder]:
        """Returns the folders whose rows count, in the order of the micro-batches."""
        return self._sorted()[0]

    def join(self, before: int, write: Callable[[list[Folder], Path], None]) -> None:
        """Join the folders of the finished micro-batches before this micro-batch. Spark does not repeat a finished
        micro-batch."""
        self._delete()
        while chosen := self._next(before):
            shutil.rmtree(self._aside, ignore_errors=True)
            write(chosen, self._aside)
            self._aside.rename(self._place / f"micro={chosen[0].first}-{chosen[-1].last}")
            self._delete()

    def _next(self, before: int) -> list[Folder]:
        done = [each for each in self.current() if each.last < before]
        alike = (list(group) for _, group in groupby(done, lambda each: each.level))
        return next((group for group in alike if len(group) >= BREADTH), [])

    def _delete(self) -> None:
        for each in self._sorted()[1]:
            shutil.rmtree(each.path)

    def _sorted(self) -> tuple[list[Folder], list[Folder]]:
        """Returns the folders whose rows count, and the folders that no longer count because a joined folder holds their
        micro-batches."""
        counting: list[Folder] = []
        others: list[Folder] = []
        for each in sorted(self._found(), key=lambda each: (each.first, -each.last)):
            is_within = bool(counting) and each.last <= counting[-1].last
            (others if is_within else counting).append(each)
        return counting, others

    def _found(self) -> list[Folder]:
        matches = [(path, _NAME.fullmatch(path.name)) for path in self._place.glob("micro=*")]
        return [Folder(int(match[1]), int(match[2] or match[1]), path) for path, match in matches if match]
