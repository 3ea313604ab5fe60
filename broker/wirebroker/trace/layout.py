"""Shows a row as one aligned line: time, connection, topic or group, request, outcome and reason."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TextIO

from kafkawire.printable import printable
from wirebroker.common.changes import MIDDLE
from wirebroker.trace.rows import Row

COLOURS = {
    "accepted": "\x1b[32m", "duplicate": "\x1b[33m", "rejected": "\x1b[31m", "fault": "\x1b[35m", "error": "\x1b[31m",
    "outdated": "\x1b[31m", "unknown": "\x1b[31m",
    "opened": "\x1b[36m", "closed": "\x1b[36m", "changed": "\x1b[36m",
}  # fmt: skip
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
PLACE, OUTCOME = 20, 9


def has_colour(stream: TextIO) -> bool:
    """Tells whether to write in colour: the stream must be a terminal, and NO_COLOR must not be set."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def time_of_day(ms: int) -> str:
    """Converts ms since the epoch to local time, `12:30:05.250`."""
    return f"{datetime.fromtimestamp(ms // 1000):%H:%M:%S}.{ms % 1000:03d}"


def line(row: Row, colour: bool = False) -> str:
    """Returns a row as one aligned line."""
    when = time_of_day(row.time)
    number = getattr(row, "connection", None)
    connection = f"#{number:<3}" if number is not None else " " * 4
    place, middle, outcome, rest = map(printable, row.parts())
    word = f"{outcome:<{OUTCOME}}"
    if colour:
        word = f"{COLOURS.get(outcome, DIM)}{word}{PLAIN}"
    return f"{when}  {connection} {place:<{PLACE}} {middle:<{MIDDLE}} {word}  {rest}".rstrip()
