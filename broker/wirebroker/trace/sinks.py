"""Sinks that write each row of a trace: as an aligned line to a console, or as a line with a JSON object to a file.

If a write to the console fails, the sink raises the error when it gets the next row, and the recorder detaches the sink
(`Recorder._hand_out`).
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import TextIO

from wirebroker.common.lasting import LastingFile, Rotation
from wirebroker.trace.layout import has_colour, line
from wirebroker.trace.rows import Row

MOST_LINES = 10_000
"""At most this many lines wait for a slow console. Further rows are dropped and counted."""
LAST_S = 1.0
"""`close` waits at most this many seconds until the console has accepted the waiting lines."""


class ConsoleSink:
    """Writes each row as a line, in colour on a terminal. Characters that the console cannot show become backslash escapes.

    The lines are written in a separate thread, because a console such as an idle pager may accept no output for hours.
    """

    name = "the console"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._colour = has_colour(self._stream)
        if isinstance(self._stream, io.TextIOWrapper):
            self._stream.reconfigure(errors="backslashreplace")
        buffer = getattr(self._stream, "buffer", None)
        raw = getattr(buffer, "raw", buffer)  # with PYTHONUNBUFFERED `buffer` is the raw file itself
        self._raw = raw if isinstance(raw, io.RawIOBase) else None
        """The file or console to which the thread writes. For a stream in memory, to which writes never block, this is None."""
        self._lines: Queue[str | None] = Queue(MOST_LINES)
        self._missing = 0
        self._failure: OSError | None = None
        self._thread = Thread(target=self._write_all, name="wirebroker-console", daemon=True)
        if self._raw is not None:
            self._stream.flush()
            self._thread.start()

    def __call__(self, row: Row) -> None:
        if self._failure is not None:
            raise self._failure
        if self._raw is None:
            write_line(self._stream, line(row, self._colour))
        elif self._lines.full():
            self._missing += 1
        else:
            self._lines.put_nowait(self._after_missing(line(row, self._colour)))

    def _after_missing(self, text: str) -> str:
        missing, self._missing = self._missing, 0
        return text if not missing else f"{missing} rows are missing here, because the console did not accept them\n{text}"

    def _write_all(self) -> None:
        try:
            while (text := self._lines.get()) is not None:
                self._write((text + os.linesep).encode(self._stream.encoding or "utf-8", "backslashreplace"))
        except OSError as failure:
            self._failure = failure
            _lead_nowhere(self._stream)

    def _write(self, data: bytes) -> None:
        """Write without the stream's buffer, because a blocked write would hold the buffer's lock, which Python needs when it
        exits.
        """
        while data and self._raw is not None:
            written = self._raw.write(data)
            if written is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            data = data[written:]

    def close(self) -> None:
        """Wait until the waiting lines are written, but at most `LAST_S` seconds."""
        if self._raw is not None:
            with suppress(Full):
                if self._missing:
                    self._lines.put_nowait(self._after_missing("The broker stops."))
                self._lines.put_nowait(None)
            self._thread.join(LAST_S)


class JsonLinesSink:
    """Appends each row to a file as one JSON object. The file can be rotated. If the disk is full, writing continues when there
    is space again (see `LastingFile`).

    Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: Path, rotation: Rotation | None = None) -> None:
        self.name = str(path)
        self._file = LastingFile(path, "the trace", rotation)

    def __call__(self, row: Row) -> None:
        self._file.write(row.as_json().encode() + b"\n", row.time)

    def close(self) -> None:
        """Close the file. Does nothing if the file is already closed."""
        self._file.close()


def write_line(stream: TextIO, text: str) -> None:
    """Write a line and flush the stream. If the write fails, raises OSError, and the stream discards all later output.
    Otherwise Python would fail again at exit, when it flushes its standard streams, and print a traceback.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _lead_nowhere(stream)
        raise


def _lead_nowhere(stream: TextIO) -> None:
    with suppress(OSError, ValueError):  # ValueError if the stream has no file descriptor, or is closed
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
