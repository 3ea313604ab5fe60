"""Where rows go: one aligned line on a console, one JSON object on a line of a file.

A sink raises the error of a failed write; the recorder then detaches it (`Recorder._hand_out`).
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from wirebroker.trace.layout import has_colour, line
from wirebroker.trace.rows import Row


class ConsoleSink:
    """Writes each row as a line, in colour on a terminal. Characters that the console cannot show become backslash escapes."""

    name = "the console"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._colour = has_colour(self._stream)
        if isinstance(self._stream, io.TextIOWrapper):
            self._stream.reconfigure(errors="backslashreplace")

    def __call__(self, row: Row) -> None:
        write_line(self._stream, line(row, self._colour))


class JsonLinesSink:
    """Appends each row to a file as one JSON object. Lines are written through, so that a killed process keeps them."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def __call__(self, row: Row) -> None:
        try:
            self._file.write(row.as_json() + "\n")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; harmless if it is closed. The part of a line that cannot be written is lost."""
        with suppress(OSError):
            self._file.close()


def write_line(stream: TextIO, text: str) -> None:
    """Write a line through. Raises OSError, after which the stream leads nowhere.

    Python flushes its standard streams when it exits, and prints a traceback if that fails.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _lead_nowhere(stream)
        raise


def _lead_nowhere(stream: TextIO) -> None:
    with suppress(OSError, ValueError):  # ValueError: it has no file descriptor, or is closed
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
