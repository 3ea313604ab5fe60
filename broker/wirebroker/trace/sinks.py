"""Where rows go: one aligned line on a console, one JSON object on a line of a file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TextIO

from wirebroker.trace.rows import FaultRow, ProduceRow, Row

_COLOURS = {"accepted": "\x1b[32m", "duplicate": "\x1b[33m", "rejected": "\x1b[31m"}
_FAULT = "\x1b[35m"
_PLAIN = "\x1b[0m"


def has_colour(stream: TextIO) -> bool:
    """Whether to colour what is written there: a terminal, unless NO_COLOR is set."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def line(row: Row, colour: bool = False) -> str:
    """A row as one aligned line."""
    when = time.strftime("%H:%M:%S", time.localtime(row.time / 1000)) + f".{row.time % 1000:03d}"
    return f"{when}  #{row.connection:<3} {_fault(row, colour) if isinstance(row, FaultRow) else _produce(row, colour)}"


def _fault(row: FaultRow, colour: bool) -> str:
    place = ", ".join(row.partitions)
    word = f"{_FAULT}{'fault':<9}{_PLAIN}" if colour else f"{'fault':<9}"
    return f"{place:<20} {row.api + ' v' + str(row.version):<37} {word}  {row.rule}, for the {ordinal(row.number)} time"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _produce(row: ProduceRow, colour: bool) -> str:
    place = f"{row.topic}-{row.partition}"
    who = f"pid {row.producer_id}/{row.producer_epoch}" if row.producer_id >= 0 else "no pid"
    what = f"seq {row.first_sequence}–{row.last_sequence}" if row.first_sequence >= 0 else "–"
    verdict = f"{row.verdict:<9}"
    if colour:
        verdict = f"{_COLOURS[row.verdict]}{verdict}{_PLAIN}"
    note = f"  [{row.note}]" if row.note else ""
    return f"{place:<20} {who:<12} {what:<14} {row.records:>5} rec  {verdict}  {row.explain}{note}"


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
