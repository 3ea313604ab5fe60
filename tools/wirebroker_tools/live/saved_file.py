"""A saved trace or capture for the live page. A thread indexes and searches the file, and windows are read on demand.

Only the index (`trace.saved`), the counts of the latest searches, and the windows that pages request are in memory.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time_ns
from typing import Any, BinaryIO

from wirebroker.common.bounded import Bounded
from wirebroker.control.controlled import Readable
from wirebroker.trace.filters import parsed
from wirebroker.trace.kept_frames import KeptExchange
from wirebroker.trace.selection import exchange_of
from wirebroker_tools.capture.files import DamagedCapture, is_capture
from wirebroker_tools.capture.spool import exchange_in, spool
from wirebroker_tools.decode.other_files import OtherFile, checked
from wirebroker_tools.explain.explanation import Explanation
from wirebroker_tools.explain.findings import Finding
from wirebroker_tools.traces.saved import BLOCK, Numbered, Parts, SavedRows, Search, window

SLICE_S = 0.05
"""The thread indexes for this time in seconds, then searches for the same time, and so on."""
IDLE_S = 0.05
EXPLAINED_S = 0.5
MOST_DRAWN = 50_000
"""At most this many rows are read for a picture."""
PACKETS = 500
"""Each time that this many packets of a capture were read, the new rows are indexed."""
MOST_SEARCHES = 4
BARS = 240
"""The number of bars in the page's chart of rows over time."""
NEAR = 80
"""To find the other rows of a row's exchange, the thread searches the block of the row, this many blocks before it, and this
many blocks after it.
"""


class SavedFile(Readable):
    """A saved trace or capture in the file `path`. The page shows it under the name `name`. Raises OSError, and raises
    ValueError for an empty file.

    `begin` starts the thread that indexes the file. With `temporary` the file is deleted when this object is closed.
    """

    kind = "file"

    def __init__(self, path: str | os.PathLike[str], name: str = "", *, temporary: bool = False) -> None:
        super().__init__()
        self.path, self.name = Path(path), name or Path(path).name
        self._temporary = temporary
        self._began = time_ns()
        self._given: BinaryIO = self.path.open("rb")
        try:
            checked(self._given, self.name)
        except OtherFile:
            self._given.close()
            raise
        self.is_capture = is_capture(self._given.read(4))
        self._given.seek(0)
        self.size = os.fstat(self._given.fileno()).st_size
        if not self.size:
            self._given.close()
            raise ValueError(f"{self.name} is empty: nothing was traced")
        self._bytes = Parts(self.path)
        self._folder = tempfile.TemporaryDirectory(prefix="wirebroker-rows-") if self.is_capture else None
        self._spool: BinaryIO | None = (Path(self._folder.name) / "rows.jsonl").open("wb") if self._folder else None
        self.rows = SavedRows(self._spool.name if self._spool else self.path)
        self.complaints: list[str] = []
        """Sentences about the parts of the file that could not be read."""
        self._searches: Bounded[str, Search] = Bounded(MOST_SEARCHES)
        self.explanation = Explanation()
        """The findings in the rows that `explain_on` has read."""
        self._explained, self._explaining = 0, Lock()
        self._stopped = Event()
        self._thread = Thread(target=self._work, name="wirebroker-index", daemon=True)

    @property
    def run(self) -> str:
        return f"{self._began}-file"

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        super().close()
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._given.close()
        self._bytes.close()
        self.rows.close()
        if self._spool is not None and self._folder is not None:
            self._spool.close()
            self._folder.cleanup()
        if self._temporary:
            self.path.unlink(missing_ok=True)

    # The thread

    def _work(self) -> None:
        steps = self._indexing()
        indexed = False
        while not self._stopped.is_set():
            indexed = indexed or not _for_a_while(lambda: next(steps, None) is not None)
            searched = _for_a_while(self._search_on)
            if indexed and not searched:
                self._stopped.wait(IDLE_S)

    def _indexing(self) -> Iterator[bool]:
        try:
            if self._spool is not None:
                yield from self._spooling(self._spool)
            for _ in self.rows.index():
                yield True
        except (DamagedCapture, OSError) as damage:
            self.complaints.append(str(damage))
            self.rows.done = True

    def _spooling(self, into: BinaryIO) -> Iterator[bool]:
        """Convert a capture to rows, and index them from time to time."""
        for number, complaints in enumerate(spool(self._given, into.write)):
            self.complaints += complaints
            if number % PACKETS == 0:
                into.flush()
                for _ in self.rows.index(growing=True):
                    yield True
        into.flush()

    def _search_on(self) -> bool:
        newest = next(reversed(self._searches.values()), None)
        return newest is not None and newest.go()

    # Reading

    def search(self, where: str) -> SavedRows | Search:
        """Returns the search for the rows that meet a filter, or for all rows if there is no filter. Raises FilterError."""
        if not where.strip():
            return self.rows
        return self._searches.get_or_make(where, lambda: Search(self.rows, parsed(where)))  # the thread runs the newest search

    def window(self, where: str, after: int, most: int) -> tuple[list[Numbered], int]:
        """Returns two values: the rows that meet the filter and come after the row `after`, and the number of the last row that
        was read. Stops after `most` rows or after `SLICE_S`.
        """
        end = monotonic() + SLICE_S
        return window(self.rows, self.search(where), after, most, lambda: monotonic() > end)

    @property
    def newest(self) -> int:
        return self.rows.rows

    async def rows_around(self, number: int) -> Sequence[Numbered]:
        """Returns the rows around the row `number`, for a picture."""
        first = max(number - MOST_DRAWN // 2, 1) - 1
        return (await asyncio.to_thread(window, self.rows, self.rows, first, MOST_DRAWN, lambda: False))[0]

    async def explained(self) -> tuple[list[Finding], Explanation]:
        """Read more rows, and return the findings so far."""
        return await asyncio.to_thread(self.explain_on), self.explanation

    def why_no_bytes(self) -> str:
        return "the capture lacks a part of the bytes" if self.is_capture else "a trace has no bytes; --capture writes them"

    def exchange(self, number: int) -> KeptExchange | None:
        """Returns the exchange of a `reply` row, or None if the file has no bytes of the exchange."""
        line = self.rows.line(number) if self._spool is not None else None
        return exchange_in(line, self._bytes.read) if line else None

    def related(self, number: int, node: int, connection: int, correlation_id: int) -> list[Numbered]:
        """Returns the rows of an exchange that are near the row `number` in the file."""
        block = (number - 1) // BLOCK
        needles = [b'"correlation_id":%s%d' % (space, correlation_id) for space in (b"", b" ")]
        found = []
        for each in range(max(block - NEAR, 0), min(block + NEAR + 1, self.rows.blocks)):
            if any(needle in self.rows.block(each) for needle in needles):
                found += [
                    (at, row) for at, row in self.rows.rows_of(each) if exchange_of(row) == (node, connection, correlation_id)
                ]
        return found

    def explain_on(self) -> list[Finding]:
        """Give the next rows to `explanation`, for up to `EXPLAINED_S`. Returns the findings so far."""
        end = monotonic() + EXPLAINED_S
        with self._explaining:
            while monotonic() < end and self._explained < self.rows.rows:
                rows, self._explained = window(self.rows, self.rows, self._explained, BLOCK, lambda: True)
                self.explanation.take_all(row for _, row in rows)
            return self.explanation.findings()

    # Progress

    def progress(self, where: str) -> dict[str, Any]:
        """Returns the progress of indexing and searching the file. Also returns three numbers for each bar of the chart over
        time: the rows, the rows with a problem, and the found rows.
        """
        search, rows = self.search(where), self.rows
        read = self._given.tell() if self._spool is not None and not rows.done else self.size
        searching = isinstance(search, Search)
        return {
            "name": self.name, "capture": self.is_capture, "rows": rows.rows, "size": self.size, "done": rows.done,
            "read": read if self._spool is not None else rows.read,
            "complaints": self.complaints[:10],
            "found": search.found if isinstance(search, Search) else rows.rows,
            "searched": len(search.counts) / max(rows.blocks, 1) if isinstance(search, Search) else 1,
            **self._bars(search.counts if isinstance(search, Search) else None),
            "searching": searching and not search.done,
        }  # fmt: skip

    def _bars(self, counts: Any) -> dict[str, Any]:
        rows = self.rows
        blocks = rows.blocks
        times, troubles = rows.times[:blocks], rows.troubles[:blocks]
        first, last = (min(times), max(times[-1], rows.latest)) if times else (0, 0)
        bars = [[0.0, 0.0, 0.0] for _ in range(BARS)]
        width = max((last - first) / BARS, 1)
        for number, (time, trouble) in enumerate(zip(times, troubles, strict=True)):
            ends = times[number + 1] if number + 1 < len(times) else last
            begin = min(int((time - first) / width), BARS - 1)
            end = max(min(int((ends - first) / width), BARS - 1), begin) + 1
            found = counts[number] if counts is not None and number < len(counts) else 0
            for at, number_of in enumerate((BLOCK, trouble, found)):
                for bar in bars[begin:end] if number_of else ():
                    bar[at] += number_of / (end - begin)
        return {"first": first, "last": last, "bars": [[round(number, 2) for number in bar] for bar in bars]}


def _for_a_while(step: Any) -> bool:
    """Take steps for `SLICE_S`. Returns False if no step had anything to do."""
    end = monotonic() + SLICE_S
    while step():
        if monotonic() > end:
            return True
    return False
