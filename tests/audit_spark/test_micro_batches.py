"""The state of a stream's micro-batches is kept in few folders, and is complete whenever the process ends. No Spark here."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from wirebroker_audit.folding import micro_batches
from wirebroker_audit.folding.micro_batches import BREADTH, Folder, MicroBatches


class Killed(BaseException):
    """Raised where the process would be killed. The code under test does not catch it."""


class Shaky:
    """Stores the number of each micro-batch. At any step the process may be killed."""

    def __init__(self, folder: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.rng = folder, rng
        self.chance = 0.1
        self.written = 0
        rename, remove = Path.rename, shutil.rmtree

        def renamed(path: Path, target: Path) -> Path:
            self.step()
            made = rename(path, target)
            self.step()
            return made

        def removed(path: Path, ignore_errors: bool = False) -> None:
            for each in sorted(path.glob("*"))[:1]:
                each.unlink()
                self.step()
            remove(path, ignore_errors=ignore_errors)
            self.step()

        monkeypatch.setattr(Path, "rename", renamed)
        monkeypatch.setattr(micro_batches.shutil, "rmtree", removed)

    def step(self) -> None:
        if self.rng.random() < self.chance:
            raise Killed

    def join(self, kept: list[Folder], path: Path) -> None:
        path.mkdir()
        for number, each in enumerate(kept):
            (path / f"part-{number}").write_text(" ".join(numbers(each)))
            self.written += 1
            self.step()

    def take(self, micro: int) -> MicroBatches:
        """Runs one micro-batch repeatedly until it is not killed."""
        while True:
            try:
                shelf = MicroBatches(self.folder / "rows", self.folder / "aside")
                shelf.join(micro, self.join)
                shelf.path(micro).mkdir(parents=True, exist_ok=True)
                self.step()
                for part in ("part-0", "part-1"):
                    (shelf.path(micro) / part).write_text(f"{micro}{part[-1]}")
                    self.step()
            except Killed:
                continue
            return shelf


def numbers(kept: Folder) -> list[str]:
    return [number for path in sorted(kept.path.iterdir()) for number in path.read_text().split()]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_there_twice_whenever_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    shaky = Shaky(tmp_path, random.Random(seed), monkeypatch)
    for micro in range(100):
        shelf = shaky.take(micro)
        read = Counter(number for each in shelf.current() for number in numbers(each))
        assert read == Counter(f"{number}{part}" for number in range(micro + 1) for part in "01")


def test_folders_stay_few_and_are_not_written_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shaky = Shaky(tmp_path, random.Random(1), monkeypatch)
    shaky.chance = 0
    most = max(len(shaky.take(micro).current()) for micro in range(600))
    assert most <= 4 * BREADTH
    assert len(list((tmp_path / "rows").iterdir())) <= 4 * BREADTH
    assert shaky.written <= 2 * 600


def test_the_micro_batch_that_may_be_done_again_is_not_joined(tmp_path: Path) -> None:
    shelf = MicroBatches(tmp_path, tmp_path / "aside")
    for micro in range(BREADTH):
        shelf.path(micro).mkdir()
    joined: list[list[Folder]] = []

    def join(kept: list[Folder], path: Path) -> None:
        joined.append(kept)
        path.mkdir()

    shelf.join(BREADTH - 1, join)
    assert not joined
    shelf.join(BREADTH, join)
    assert [(each.first, each.last) for each in shelf.current()] == [(0, BREADTH - 1)]
