"""Writes a capture as a file of rows, so that a capture of any size can be read in parts, like a trace.

A `reply` row of this file has two additional fields. `at` says where the capture has the bytes of the request and the response,
and `place` has the client's host and the listener.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from kafkawire.frames import SIZE_BYTES
from kafkawire.registry import KEYS
from wirebroker.trace.kept_frames import About, KeptExchange
from wirebroker.trace.rows import ReplyRow, Row
from wirebroker_tools.capture.session import Session


def spool(capture: BinaryIO, write: Callable[[bytes], object]) -> Iterator[list[str]]:
    """Read a capture and write its rows as lines.

    After each packet, yields an empty list; at the end, yields the list of complaints.

    Raises OSError, and raises DamagedCapture if the capture has no packet at all.
    """
    lines: list[bytes] = []
    session = Session(lambda row: lines.append(_line(row, session)))
    for _ in session.reading(capture):
        if len(lines) > 1000:
            write(b"".join(lines))
            lines.clear()
        yield []
    write(b"".join(lines))
    yield session.complaints


def _line(row: Row, session: Session) -> bytes:
    try:
        line = b'{"event":"%s",%s' % (row.event.encode(), msgspec.json.encode(row)[1:])
    except UnicodeEncodeError:  # a name may have half of a surrogate pair
        line = row.as_json().encode()
    if isinstance(row, ReplyRow):
        line = b'%s,"place":%s,"at":%s}' % (line[:-1], json.dumps(session.place).encode(), msgspec.json.encode(session.places))
    return line + b"\n"


def exchange_in(line: bytes, read: Callable[[int, int], bytes]) -> KeptExchange | None:
    """Returns the exchange of a line that `spool` wrote, or None for other lines.

    `read` returns bytes of the capture by position and size.
    """
    row: dict[str, Any] = json.loads(line)
    if "at" not in row or row["event"] != ReplyRow.event or row["api"] not in KEYS:
        return None
    request, response = (b"".join(read(at, size) for at, size in places) for places in row["at"])
    if not request or not response:
        return None
    times = row["time"] - row["latency"], row["time"]
    about = About(KEYS[row["api"]], row["version"], row["node"], row["connection"], *times, row["place"])
    return KeptExchange(about, request[SIZE_BYTES:], response)
