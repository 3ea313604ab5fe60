"""Where rows go: one aligned line on a console, one JSON object on a line of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from wirebroker.trace.lines import has_colour, line
from wirebroker.trace.rows import Row


class ConsoleSink:
    """Writes each row as a line, in colour on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._colour = has_colour(self._stream)

    def __call__(self, row: Row) -> None:
        print(line(row, self._colour), file=self._stream, flush=True)


class JsonLinesSink:
    """Appends each row to a file as one JSON object. Lines are written through, so that a killed process keeps them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def __call__(self, row: Row) -> None:
        self._file.write(row.as_json() + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
