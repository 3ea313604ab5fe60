"""Reads and searches the rows of a saved trace of any size. Parts of the file are read on demand; an index says where the rows
are.

The index has an entry for each block of 256 lines, with the block's position and time. An entry takes 18 bytes, so the index of
a trace of 10 GB takes a few MiB. A search stores for each block how many of its rows meet the filter. A row's number is the
number of its line, counted from 1.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Lock

from wirebroker.trace.filters import Filter, needles
from wirebroker.trace.rows import Row, row_from_line

BLOCK = 256
"""The number of lines between two entries of the index."""
AT_ONCE = 4 << 20
"""The number of bytes in one read of the file."""
LONGEST_LINE = 64 << 20
MOST_TROUBLES = 2**16 - 1
"""A damaged line may look like any number of problems, and the index counts at most this many in a block."""
_TIME = re.compile(rb'"time":\s?(\d{1,15})')
_TROUBLE = re.compile(
    rb'"errors":\s?\["|"verdict":\s?"rejected"|"event":\s?"(?:fault|authorization|throttle|unsupported)"'
    rb'|"outcome":\s?"failed"|"agrees":\s?false'
)
"""Matches rows that show a problem: errors, refusals and faults."""
Numbered = tuple[int, Row]


class Parts:
    """Reads parts of a file. Any thread may call its methods. Raises OSError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - open until `close`
        self._lock = Lock()

    def read(self, at: int, size: int) -> bytes:
        """Returns at most `size` bytes at a position."""
        with self._lock:
            self._file.seek(at)
            return self._file.read(size)

    def close(self) -> None:
        self._file.close()


class SavedRows:
    """The rows in a file of JSON lines. One thread may call `index` while another thread reads rows. Raises OSError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._parts = Parts(path)
        self.read = 0
        """The number of indexed bytes."""
        self.rows = 0
        """The number of indexed lines."""
        self.blocks = 0
        """The number of indexed blocks, including a last incomplete block."""
        self.done = False
        self.latest = 0
        """The time of the latest row, in ms since the epoch."""
        self.starts, self.times, self.troubles = array("Q"), array("q"), array("H")
        """For each block: its position, the time of its first row, and the number of rows in it that show a problem."""

    def index(self, growing: bool = False) -> Iterator[None]:
        """Index the file, some MiB in each step. If the file is `growing`, an incomplete last line is left for a later call,
        and `done` stays false.
        """
        rest = b""
        while data := self._parts.read(self.read + len(rest), AT_ONCE):
            rest += data
            end = rest.rfind(b"\n") + 1
            if end or len(rest) > LONGEST_LINE:
                end = end or len(rest)
                self._note(rest[:end])
                rest = rest[end:]
            yield
        if rest and not growing:
            self._note(rest)
        self.done = not growing

    def _note(self, data: bytes) -> None:
        lines = data.splitlines(keepends=True)
        at, first = self.read, -self.rows % BLOCK
        if first:  # the last block is not full yet
            self.troubles[-1] = min(self.troubles[-1] + _trouble(b"".join(lines[:first])), MOST_TROUBLES)
            at += sum(map(len, lines[:first]))
        for start in range(first, len(lines), BLOCK):
            block = b"".join(lines[start : start + BLOCK])
            time = _TIME.search(block)
            self.starts.append(at)
            self.times.append(int(time[1]) if time else self.times[-1] if self.times else 0)
            self.troubles.append(_trouble(block))
            at += len(block)
        found = _TIME.findall(lines[-1])
        self.latest = max(self.latest, int(found[0]) if found else 0)
        self.read += len(data)
        self.rows += len(lines)
        self.blocks = len(self.starts)  # set last, because another thread reads blocks up to this number

    def block(self, number: int) -> bytes:
        """Returns the lines of a block, at most 64 MiB, because damaged lines can be very long."""
        start = self.starts[number]
        end = self.starts[number + 1] if number + 1 < len(self.starts) else self.read
        return self._parts.read(start, min(end - start, LONGEST_LINE))

    def line(self, number: int) -> bytes | None:
        """Returns the line with this number, or None if the file has no such line."""
        block, at = divmod(number - 1, BLOCK)
        if not 0 <= block < self.blocks:
            return None
        return next(islice(self.block(block).splitlines(), at, None), None)

    def rows_of(self, block: int) -> Iterator[Numbered]:
        """Yields the rows of a block, except damaged lines."""
        for at, line in enumerate(self.block(block).splitlines(), block * BLOCK + 1):
            try:
                yield at, row_from_line(line)
            except (ValueError, RecursionError):
                continue

    def number_at(self, time: int) -> int:
        """Returns the number of a row before the first row at `time` or later. The result may be up to one block too early,
        because the index has only the times of blocks.
        """
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.times[middle] < time else (low, middle)
        return max(low - 1, 0) * BLOCK

    def close(self) -> None:
        self._parts.close()


def _trouble(block: bytes) -> int:
    return min(sum(1 for _ in _TROUBLE.finditer(block)), MOST_TROUBLES)


class Search:
    """The rows of a file that meet a filter. One thread may call `go` while another thread reads rows."""

    def __init__(self, rows: SavedRows, wanted: Filter) -> None:
        self._rows, self._wanted = rows, wanted
        self._needles = needles(wanted)
        self.counts = array("H")
        """For each searched block: the number of rows that meet the filter."""
        self.found = 0
        """The number of rows that meet the filter, in the part of the file that has been searched."""

    @property
    def done(self) -> bool:
        """True if the whole file has been searched."""
        return self._rows.done and len(self.counts) == self._rows.blocks

    def go(self) -> bool:
        """Search the next block. Returns False if the next block is not complete yet."""
        number = len(self.counts)
        if number >= self._rows.blocks - (not self._rows.done):
            return False
        count = sum(1 for _ in self._chosen(number))
        self.found += count
        self.counts.append(count)
        return True

    def rows_of(self, block: int) -> Iterator[Numbered]:
        """Returns the rows of a block that meet the filter."""
        return self._chosen(block) if block >= len(self.counts) or self.counts[block] else iter(())

    def before(self, number: int, count: int) -> int:
        """Returns the number of a row before the row `number`. Between the two rows, about `count` rows meet the filter."""
        block = min(number // BLOCK, len(self.counts))
        while block > 0 and count > 0:
            block -= 1
            count -= self.counts[block]
        return block * BLOCK

    def _chosen(self, block: int) -> Iterator[Numbered]:
        lines, first = self._rows.block(block), block * BLOCK + 1
        if self._needles is not None:
            lowered = lines.lower()
            if not any(needle in lowered for needle in self._needles):
                return
        for number, line in enumerate(lines.splitlines(), first):
            if self._needles is not None:
                lowered = line.lower()
                if not any(needle in lowered for needle in self._needles):
                    continue
            try:
                row = row_from_line(line)
            except (ValueError, RecursionError):
                continue
            if self._wanted.has(row):
                yield number, row


def window(
    saved: SavedRows, chosen: SavedRows | Search, after: int, most: int, enough: Callable[[], bool]
) -> tuple[list[Numbered], int]:
    """Returns two values: at most `most` rows after the row `after`, and the number of the last line that was read. Stops early
    if `enough` returns True.
    """
    found: list[Numbered] = []
    reached = after
    for block in range(max(after, 0) // BLOCK, saved.blocks):
        last = min((block + 1) * BLOCK, saved.rows)
        found += (each for each in chosen.rows_of(block) if after < each[0] <= last)
        if len(found) >= most:
            return found[:most], found[most - 1][0]
        reached = max(last, after)
        if enough():
            break
    return found, reached
