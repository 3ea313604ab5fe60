"""Keeps rows of a running trace for pictures. After the first picture, this module keeps more rows than the trace's ring buffer
has."""

from __future__ import annotations

from collections.abc import Iterator

from wirebroker.trace.recorder import Recorder
from wirebroker.trace.rows import Row

MOST = 200_000
"""At most this many rows are kept. At the trace level `exchanges`, these are the rows of 100,000 exchanges."""
SLICE = 1000
"""This many rows are read in one slice."""


class KeptRows:
    """The latest rows of a run, with their numbers."""

    def __init__(self, most: int = MOST) -> None:
        self.rows: list[tuple[int, Row]] = []
        self._most = most
        self._run = ""
        self._last = 0

    def catch_up(self, recorder: Recorder, run: str) -> Iterator[None]:
        """Reads the rows that were added since the last call, one slice in each step. Rows of an earlier run are dropped."""
        if run != self._run:
            self.rows, self._run, self._last = [], run, 0
        while self._last < recorder.added and run == self._run:
            missed, rows = recorder.rows_after(self._last, SLICE)
            first = self._last + missed + 1
            self._last += missed + len(rows)
            if len(self.rows) + len(rows) > self._most:  # a new list, because a picture may still be drawn from the old list
                self.rows = self.rows[self._most // 10 :]
            self.rows += enumerate(rows, first)
            yield
