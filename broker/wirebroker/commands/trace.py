"""`wirebroker trace show`: the rows in a file of JSON lines, or a picture of its producers' sequences."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from wirebroker.trace.layout import has_colour, line
from wirebroker.trace.rows import EVENTS, ProduceRow, Row, row_from_json
from wirebroker.trace.timeline import timelines

_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,3}))?)?")
_IN_NAME = re.compile(r"(.*)-(\d+)")
_API_OF = {"produce": "Produce", "fetch": "Fetch"}


def run(options: argparse.Namespace) -> int:
    """Print the rows; the exit code: 0, or 2 if they cannot be read. A damaged line is reported and left out."""
    path = Path(options.file)
    try:
        lines = path.read_bytes().splitlines()
    except OSError as refused:
        print(f"wirebroker trace show: {path}: {refused.strerror}", file=sys.stderr)
        return 2
    rows = list(_read(path, lines))
    try:
        if options.event is not None and options.event not in EVENTS:
            raise ValueError(f"there is no event {options.event!r}; there are {', '.join(EVENTS)}")
        times = _times(options, rows)
        wanted = [row for row in rows if _is_wanted(row, options, times)]
    except ValueError as wrong:
        print(f"wirebroker trace show: {wrong}", file=sys.stderr)
        return 2
    colour = has_colour(sys.stdout)
    if options.timeline:
        for text in timelines((row for row in wanted if isinstance(row, ProduceRow)), colour):
            print(text)
    else:
        for row in wanted:
            print(line(row, colour))
    return 2 if lines and not rows else 0


def _read(path: Path, lines: list[bytes]) -> Iterator[Row]:
    for number, text in enumerate(lines, 1):
        try:
            yield row_from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
            print(f"{path}:{number}: this line is not a row of a trace ({wrong!r})", file=sys.stderr)


def _times(options: argparse.Namespace, rows: list[Row]) -> tuple[int | None, int | None]:
    day = rows[0].time if rows else 0
    since = moment(options.since, day) if options.since else None
    return since, moment(options.until, day) if options.until else None


def moment(text: str, day: int) -> int:
    """ms since the epoch: a number of them, an ISO date and time, or a time of the day of `day`. ValueError for neither."""
    if text.isdigit():
        return int(text)
    try:
        if clock := _CLOCK.fullmatch(text):
            hour, minute, second = (int(part or 0) for part in clock.group(1, 2, 3))
            ms = int((clock[4] or "0").ljust(3, "0"))
            found = datetime.fromtimestamp(day / 1000).replace(hour=hour, minute=minute, second=second, microsecond=ms * 1000)
        else:
            found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write 12:30:05.250, 2026-11-21T12:30 or ms since the epoch") from None
    return round(found.timestamp() * 1000)


def _is_wanted(row: Row, options: argparse.Namespace, times: tuple[int | None, int | None]) -> bool:
    since, until = times
    if (since is not None and row.time < since) or (until is not None and row.time > until):
        return False
    if options.event is not None and row.event != options.event:
        return False
    return all(found(row) == wanted for found, wanted in _fields(options) if wanted is not None) and _is_about(
        row, options.topic, options.partition
    )


def _fields(options: argparse.Namespace) -> list[tuple[Callable[[Row], object], object]]:
    return [
        (lambda row: getattr(row, "producer_id", None), options.producer),
        (lambda row: getattr(row, "verdict", None), options.verdict),
        (lambda row: getattr(row, "connection", None), options.connection),
        (lambda row: getattr(row, "client_id", None), options.client),
        (lambda row: getattr(row, "api", _API_OF.get(row.event, "")).lower(), options.api and options.api.lower()),
    ]


def _is_about(row: Row, topic: str | None, partition: int | None) -> bool:
    """Whether the row names this topic and partition."""
    if topic is None and partition is None:
        return True
    return any(topic in (None, name) and partition in (None, index) for name, index in _places(row))


def _places(row: Row) -> Iterator[tuple[str, int | None]]:
    if hasattr(row, "topic"):
        yield row.topic, getattr(row, "partition", None)
        return
    names: tuple[str, ...] = getattr(row, "partitions", ()) or getattr(row, "about", ())
    for name in names:
        match = _IN_NAME.fullmatch(name)
        yield (match[1], int(match[2])) if match else (name, None)
