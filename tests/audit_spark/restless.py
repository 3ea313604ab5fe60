"""A partition's folder that changes as if Kafka were running: segments grow, are rolled, cleaned, merged and deleted.

Tests check the audit with this module and the module `synthetic`, so these two modules share no code with the audit.
"""

from __future__ import annotations

import random
from pathlib import Path

from audit_spark.synthetic import batch

ID_FILE = "partition.metadata"


class Restless:
    """A partition's folder, with lists of its stored and its removed batches. `act` performs one random operation."""

    def __init__(self, root: Path, rng: random.Random, name: str = "orders-0", topic_id: str = "") -> None:
        self.folder, self.rng = root / name, rng
        self.folder.mkdir(parents=True)
        if topic_id:
            (self.folder / ID_FILE).write_text(f"version: 0\ntopic_id: {topic_id}\n")
        self.offset = 0
        self.alike = rng.random() < 0.5
        """Tells whether all batches have the same size. If so, a rewritten segment can have other batches at the same
        positions."""
        self.segments: dict[int, dict[int, bytes]] = {0: {}}
        """The segments by their first offset. Each segment has its batches by their base offset."""
        self.removed: set[int] = set()
        """The base offsets of batches that the cleaner or retention has removed."""
        self.path(0).touch()

    def path(self, first: int, suffix: str = "") -> Path:
        return self.folder / f"{first:020d}.log{suffix}"

    def append(self, batches: int = 1) -> None:
        last = max(self.segments)
        with self.path(last).open("ab") as file:
            for _ in range(batches):
                count = 1 if self.alike else self.rng.randint(1, 3)
                values = [b"x" * (20 if self.alike else self.rng.randint(1, 40)) for _ in range(count)]
                made = batch(self.offset, values, pid=7, epoch=0, seq=self.offset)
                self.segments[last][self.offset] = made
                file.write(made)
                self.offset += len(values)

    def roll(self) -> None:
        if self.segments[max(self.segments)]:
            self.segments[self.offset] = {}
            self.path(self.offset).touch()

    def clean(self, count: int, keep: float, *, half: bool = False) -> None:
        """Rewrite the first `count` closed segments as one segment. With `half`, stop before the `.swap` file is renamed."""
        firsts = sorted(self.segments)[:-1][:count]
        if not firsts:
            return
        kept: dict[int, bytes] = {}
        for first in firsts:
            batches = self.segments.pop(first)
            kept |= {base: raw for base, raw in batches.items() if self.rng.random() < keep}
            self.removed |= set(batches) - set(kept)
        swap = self.path(firsts[0], ".swap")
        swap.write_bytes(b"".join(kept.values()))
        for first in firsts:
            old = self.path(first)
            if old.exists():  # if not, an unfinished compaction has left a `.swap` file
                old.rename(self.path(first, ".deleted"))
            elif first != firsts[0]:
                self.path(first, ".swap").unlink()
        self.segments[firsts[0]] = kept
        if not half:
            swap.rename(self.path(firsts[0]))

    def settle(self) -> None:
        """Rename the `.swap` files of unfinished compactions."""
        for path in self.folder.glob("*.swap"):
            path.rename(path.with_suffix(""))

    def delete(self, count: int) -> None:
        """Delete the first `count` closed segments, as retention does."""
        for first in sorted(self.segments)[:-1][:count]:
            self.removed |= set(self.segments.pop(first))
            path = self.path(first) if self.path(first).exists() else self.path(first, ".swap")
            path.rename(self.path(first, ".deleted"))

    def act(self) -> None:
        rng = self.rng
        match rng.choice(("append", "append", "roll", "roll", "clean", "half", "settle", "delete")):
            case "append":
                self.append(rng.randint(1, 4))
            case "roll":
                self.append()
                self.roll()
            case "clean":
                self.clean(rng.randint(1, 4), rng.choice((0.0, 0.5, 0.9, 1.0)))
            case "half":
                self.clean(rng.randint(1, 4), rng.choice((0.5, 1.0)), half=True)
            case "settle":
                self.settle()
            case "delete":
                if rng.random() < 0.3:
                    self.delete(rng.randint(1, 2))
