"""`wirebroker trace show`: shows the rows of a trace or of captured traffic, or pictures of them."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from itertools import pairwise
from typing import BinaryIO, TextIO

from kafkawire.printable import printable, printable_lines
from kafkawire.registry import KEYS
from wirebroker.commands.arguments import is_of_output, write_output
from wirebroker.common.complaints import complain
from wirebroker.common.suggestions import did_you_mean, nearest
from wirebroker.trace.filters import API_OF, contradiction, parsed
from wirebroker.trace.layout import has_colour, line
from wirebroker.trace.rows import EVENTS, Row, RunRow, row_from_line
from wirebroker.trace.selection import NAMES, topics_of
from wirebroker_tools.capture.files import DamagedCapture, is_capture
from wirebroker_tools.capture.session import Session
from wirebroker_tools.commands.page import show
from wirebroker_tools.decode.other_files import OtherFile, checked
from wirebroker_tools.pictures.drawing import MOST_LINES, Wish, draw
from wirebroker_tools.pictures.marks import svg
from wirebroker_tools.traces.folds import Fold, folded
from wirebroker_tools.traces.subject import Subject
from wirebroker_tools.traces.timeline import timelines

_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,3}))?)?")
_EVENT = re.compile(rb'\s*\{\s*"event"\s*:')
"""The beginning of each row in a trace."""
MOST_UNREAD = 10
"""Lines that are not rows are reported, but at most this many of them."""
PAUSE_S = 0.2
"""Seconds between two reads of a followed file."""


def run(options: argparse.Namespace) -> int:
    """Print the rows of a trace or capture. Returns the exit code: 0, or 2 if the file cannot be read. A damaged line is
    reported and left out.
    """
    with ExitStack() as resources:
        try:
            selection = Selection(options)
            if options.page:
                return show(options)
            file = sys.stdin.buffer if options.file == "-" else resources.enter_context(open(options.file, "rb"))
            checked(file, options.file)
            return _follow(file, selection) if options.follow else _show(file, selection)
        except OSError as refused:
            if is_of_output(refused):
                raise
            complain("trace show", f"{refused.filename or options.file}: {refused.strerror}")
        except (OtherFile, DamagedCapture) as wrong:
            complain("trace show", f"{_name_of(options.file)}: {wrong}")
        except ValueError as wrong:
            complain("trace show", wrong)
    return 2


def _show(file: BinaryIO, selection: Selection) -> int:
    """Show a whole file. All rows are read first, because a later row can name the client of an earlier row."""
    is_captured = isinstance(file, io.BufferedReader) and is_capture(file.peek(4)[:4])
    if is_captured and not (selection.options.timeline or selection.options.picture):
        return _show_capture(file, selection)
    lines = [] if is_captured else file.read().splitlines()
    rows = list(captured(selection.options.file, file, sys.stderr) if is_captured else read_rows(selection.options.file, lines))
    if is_captured and not rows:
        return 2  # a complaint of `captured` gives the reason
    selection.learn(rows)
    if rows:
        selection.check_names()
    runs = [(run, selection.of_run(run)) for run in _runs(rows)]
    printed = 0
    if selection.options.picture:
        return _draw(runs[-1:], rows, selection.options)
    for text in (_timelines if selection.options.timeline else _chosen)(runs, has_colour(sys.stdout)):
        print(text)
        printed += 1
    if not printed:
        print(_nothing(len(rows), selection.options), file=sys.stderr)
    return 0


def _show_capture(file: BinaryIO, selection: Selection) -> int:
    """Show a capture of any size: its rows are not kept in memory.

    The capture is read twice if the flags need later rows to select earlier rows.
    """
    name, colour, read, printed = selection.options.file, has_colour(sys.stdout), 0, 0
    complaints: TextIO | None = sys.stderr
    if selection.looks_ahead:
        file = file if file.seekable() else io.BytesIO(file.read())
        selection.learn(captured(name, file, complaints))
        selection.check_names()
        file.seek(0)
        complaints = None

    def chosen() -> Iterator[Row]:
        nonlocal read
        for row in captured(name, file, complaints):
            read += 1
            if not selection.looks_ahead:
                selection.learn((row,))
            if selection.has(row):
                yield row

    for text in _lines(chosen(), colour, selection.folds):
        print(text)
        printed += 1
    if read and not printed:
        print(_nothing(read, selection.options), file=sys.stderr)
    return 0 if read else 2


def captured(name: str, file: BinaryIO, complaints: TextIO | None) -> Iterator[Row]:
    """Yields the rows of a capture while reading it. Raises ValueError if the capture is damaged from the start."""
    rows: list[Row] = []
    session = Session(rows.append)
    for _ in session.reading(file):
        yield from rows
        rows.clear()
    yield from rows
    for complaint in session.complaints if complaints is not None else ():
        print(printable(f"{_name_of(name)}: {complaint}"), file=complaints)


def _nothing(rows: int, options: argparse.Namespace) -> str:
    """Returns the sentence to print if no row is shown."""
    name = _name_of(options.file)
    if not rows:
        return f"{name} is empty: nothing was traced"
    what = "is a batch that the flags choose" if options.timeline else "is chosen by the flags"
    return f"none of the {rows:,} rows in {name} {what}{f'; {why}' if (why := contradiction(parsed(options.where))) else ''}"


def _runs(rows: list[Row]) -> list[list[Row]]:
    """Splits the rows by run. A file may have several runs, and each run numbers connections and producers from 1 again."""
    starts = sorted({0, *(index for index, row in enumerate(rows) if isinstance(row, RunRow)), len(rows)})
    return [rows[first:last] for first, last in pairwise(starts)]


def _chosen(runs: list[Run], colour: bool) -> Iterator[str]:
    for rows, selection in runs:
        yield from _lines((row for row in rows if selection.has(row)), colour, selection.folds)


def _lines(rows: Iterable[Row], colour: bool, folds: bool) -> Iterator[str]:
    for each in folded(rows) if folds else rows:
        yield each.line(colour) if isinstance(each, Fold) else line(each, colour)


def _timelines(runs: list[Run], colour: bool) -> Iterator[str]:
    """Yields the timelines of each run, with a heading if there are several runs."""
    drawn = [(rows, lines) for rows, selection in runs if (lines := list(timelines(rows, colour, selection.has)))]
    for number, (rows, lines) in enumerate(drawn):
        if len(runs) > 1:
            began = f"{datetime.fromtimestamp(rows[0].time // 1000):%Y-%m-%d %H:%M:%S}"
            yield from [""] * (number > 0)
            yield f"the run that began at {began}"
            yield ""
        yield from lines


def _draw(runs: list[Run], rows: list[Row], options: argparse.Namespace) -> int:
    """Draw the selected rows of the last run. The picture numbers each row by its line in the file."""
    if not any(selection.has(row) for run, selection in runs for row in run):
        print(_nothing(len(rows), options), file=sys.stderr)
        return 2
    run, selection = runs[0]
    numbered = [(number, row) for number, row in enumerate(run, len(rows) - len(run) + 1) if selection.has(row)]
    drawn = draw(options.picture, numbered, Wish(width=options.width, lines=MOST_LINES, of=options.of))
    if options.of and options.of != drawn.choice:
        choices = ", ".join(drawn.choices) or "nothing"
        raise ValueError(f"there is no picture of {options.of!r}{did_you_mean(options.of, drawn.choices)}; there is {choices}")
    if options.out is None:
        print(svg(drawn))
    else:
        write_output(options.out, svg(drawn))
    return 0


def _follow(file: BinaryIO, selection: Selection) -> int:
    """Show the rows as they arrive, until Ctrl-C or the end of standard input."""
    for flag in ("timeline", "picture"):
        if getattr(selection.options, flag):
            raise ValueError(f"--{flag} draws a whole trace, so --follow cannot be given with it")
    if isinstance(file, io.BufferedReader) and is_capture(file.peek(4)):
        raise ValueError("--follow is for traces; a capture is read as a whole")
    colour = has_colour(sys.stdout)
    lines = iter(file.readline, b"") if file is sys.stdin.buffer else appended(file)
    for row in read_rows(selection.options.file, lines, follows=True):
        selection = selection.of_run([]) if isinstance(row, RunRow) else selection
        selection.learn([row])
        if selection.has(row):
            print(line(row, colour), flush=True)
    return 0


def appended(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a file. Then waits for further lines, and yields each line that is appended to the file.

    If the file is truncated, it is read again from its start. After a rotation the new file is read.
    """
    text = b""
    while True:
        part = file.readline()
        text += part
        if text.endswith(b"\n"):
            yield text
            text = b""
        elif not part:
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)
                text = b""
            elif (following := _in_its_place(file)) is not None:
                yield from file.readlines()
                file.close()
                file, text = following, b""
                continue
            time.sleep(PAUSE_S)


def _in_its_place(file: BinaryIO) -> BinaryIO | None:
    """If another file now has this file's name, opens and returns that file."""
    with suppress(OSError):
        following = open(file.name, "rb")  # noqa: SIM115
        if os.path.sameopenfile(file.fileno(), following.fileno()):
            following.close()
            return None
        return following
    return None


def read_rows(name: str, lines: Iterable[bytes], *, follows: bool = False) -> Iterator[Row]:
    """Yields the rows in these lines. Lines that are not rows are left out. The first MOST_UNREAD lines that are not rows are
    reported: with `follows` at once, else as soon as a row comes. Raises OtherFile if the input has lines, but no rows."""
    name, told, unread, rows, first = _name_of(name), list[str](), 0, 0, ""
    for number, text in enumerate(lines, 1):
        row = None
        try:
            row = row_from_line(text)
        except (ValueError, RecursionError) as wrong:
            unread += 1
            first = first or (f"line {number}: {wrong}" if _EVENT.match(text) else "")
            if unread <= MOST_UNREAD:
                told.append(f"{name}:{number}: this line is not a row of a trace ({wrong})")
        if told and (follows or row is not None or rows):
            print(printable_lines("\n".join(told)), file=sys.stderr)
            told.clear()
        if row is not None:
            rows += 1
            yield row
    if unread and not rows and first:
        raise OtherFile(f"no line is a row of a trace; the trace of another version may have other rows ({first})")
    if unread and not rows:
        raise OtherFile("this is neither a trace (JSON, a row in each line) nor a capture (pcapng, pcap)")
    if unread > MOST_UNREAD:
        print(printable(f"{name}: {unread - MOST_UNREAD:,} more lines are not rows of a trace"), file=sys.stderr)


def _name_of(file: str) -> str:
    return "standard input" if file == "-" else file


Run = tuple[list[Row], "Selection"]
"""The rows of one run, and the selection among them."""


class Selection:
    """Tells which rows the flags select. Raises ValueError if the flags cannot match any row."""

    def __init__(self, options: argparse.Namespace, day: int | None = None) -> None:
        self.options = options
        if options.event is not None and options.event not in EVENTS:
            raise ValueError(f"there is no event {options.event!r}{nearest(options.event, EVENTS)}")
        apis = {name.lower(): name for name in KEYS}
        self._api = apis.get((options.api or "").lower())
        if options.api and self._api is None:
            raise ValueError(f"there is no API {options.api!r}{did_you_mean(options.api, KEYS)}")
        self._where = parsed(options.where)
        self._subjects = [
            Subject(kind, getattr(options, kind), options.partition if kind == "topic" else None)
            for kind in NAMES
            if getattr(options, kind) is not None
        ]
        self._day = day
        self._set_times(day or 0)

    def _set_times(self, day: int) -> None:
        self._since = moment(self.options.since, day) if self.options.since else None
        self._until = moment(self.options.until, day) if self.options.until else None

    @property
    def folds(self) -> bool:
        """Tells whether repeated rows are printed as one line.

        On a terminal, repeated rows are printed as one line unless the flags say otherwise.
        """
        wanted: bool | None = self.options.fold
        return sys.stdout.isatty() if wanted is None else wanted

    @property
    def looks_ahead(self) -> bool:
        """Tells whether later rows can make earlier rows match a flag."""
        return bool(self._subjects)

    def of_run(self, rows: Iterable[Row]) -> Selection:
        """Returns a new selection with the same flags, for the rows of one run."""
        selection = Selection(self.options, self._day)
        selection.learn(rows)
        return selection

    def learn(self, rows: Iterable[Row]) -> None:
        """Note facts that these rows have and other rows lack, such as a client's name.

        If a time in the flags has no date, the time is on the day of the first row.
        """
        for row in rows:
            if self._day is None:
                self._day = row.time
                self._set_times(row.time)
            for subject in self._subjects:
                subject.learn(row)

    def check_names(self) -> None:
        """Raises ValueError if a flag names something that no row names."""
        for subject in self._subjects:
            if sentence := subject.unknown():
                raise ValueError(sentence)

    def has(self, row: Row) -> bool:
        """Tells whether the flags select this row."""
        options = self.options
        if (self._since is not None and row.time < self._since) or (self._until is not None and row.time > self._until):
            return False
        if options.event not in (None, row.event) or options.verdict not in (None, getattr(row, "verdict", None)):
            return False
        if self._api not in (None, getattr(row, "api", API_OF.get(row.event))):
            return False
        if options.topic is None and options.partition not in (None, *(index for _, index in topics_of(row))):
            return False
        return self._where.has(row) and all(subject.has(row) for subject in self._subjects)


def moment(text: str, day: int) -> int:
    """Returns ms since the epoch.

    The text is a number of ms since the epoch, an ISO date and time, or a time of the day on `day`. Raises ValueError for any
    other text.
    """
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
