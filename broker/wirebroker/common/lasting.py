"""Files that a process writes as long as it runs. The files rotate, and writing continues after the disk was full.

Each caller of `write` passes the time in ms since the epoch, because this module does not read a clock.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path
from selectors import EVENT_WRITE, DefaultSelector

from msgspec import Struct

logger = logging.getLogger("wirebroker")

KEPT = 10
"""The number of older files that rotation keeps, unless another number is given."""
RETRY_MS = 10_000
"""The time in ms between a failed write and the next try."""
PATIENCE_S = 1.0
"""A write to a full pipe waits at most this many seconds for the reader, because the broker does nothing else meanwhile."""
_LIMIT = re.compile(r"(\d{1,12})\s*([kmgt]?b|ms|s|m|h|d)", re.IGNORECASE)
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Rotation(Struct, frozen=True):
    """The limits of a file's size and age. A file that reaches a limit is full. A full file gets a number in its name
    (`trace.000001.jsonl`), and an empty file takes its place.
    """

    size: int | None = None
    """in bytes"""
    ms: int | None = None
    """ms since the first write"""
    keep: int = KEPT
    """the number of full files that stay; older files are deleted"""

    @classmethod
    def of(cls, text: str, keep: int = KEPT) -> Rotation:
        """Returns the rotation that `100MB`, `1h` or `100MB,1h` describes. Raises ValueError."""
        size = ms = None
        for part in text.split(","):
            found = _LIMIT.fullmatch(part.strip())
            if found is None or not int(found[1]):
                raise ValueError(f"expected a size, a time or both (100MB, 1h or 100MB,1h), not {text!r}")
            count, unit = int(found[1]), found[2].lower()
            if unit in _BYTES:
                size = count * _BYTES[unit]
            else:
                ms = count * _MS[unit]
        return cls(size, ms, keep)

    def is_due(self, size: int, age: int) -> bool:
        """Tells whether a file of this size, first written `age` ms ago, is full."""
        return (self.size is not None and size > self.size) or (self.ms is not None and age >= self.ms)


class LastingFile:
    """A file to which pieces are appended.

    Each piece is written immediately and whole, so that a killed process loses no piece.

    Each file begins with `start`. Log messages call the contents `what`. With `replaces`, an existing file is emptied, or
    rotated if there is a rotation. If a write fails, the log reports the failure, and the file keeps the pieces that were
    written whole. For the next `RETRY_MS`, all pieces are lost. Then the file tries to write the next piece. Writing to a
    special file such as a pipe is not tried again. A pipe needs a reader before it is opened. Raises OSError.
    """

    def __init__(
        self, path: Path, what: str, rotation: Rotation | None = None, start: bytes = b"", *, replaces: bool = False
    ) -> None:
        self.path = path
        self._what, self._rotation, self._start = what, rotation, start
        self._file: FileIO | None = None
        self._size = 0
        self._began: int | None = None
        """The time of the first write since the file was opened."""
        self._retry_at: int | None = None
        """The time of the next try after a failed write."""
        self._missing = 0
        self._rotates_at: int | None = None
        """The time of the next attempt to rotate, after a failed attempt."""
        if replaces and path.is_file() and path.stat().st_size:
            if rotation is not None:
                self._move_away()
            else:
                os.truncate(path, 0)
        self._file = _opened(path)
        try:
            self._begin(self._file)
        except OSError as full:
            self._failed(full, -RETRY_MS)

    def write(self, piece: bytes, now: int) -> None:
        """Append a piece. While the file cannot be written, the piece is lost and counted."""
        if self._file is None and (self._retry_at is None or _must_wait(now, self._retry_at)):
            self._missing += 1
            return
        try:
            self._rotate(len(piece), now)
            file = self._file or self._open()
            self._append(file, piece)
        except OSError as failure:
            self._failed(failure, now)
            return
        if self._retry_at is not None:
            logger.warning("%s goes to %s again; %d pieces are missing there", self._what, self.path, self._missing)
            self._retry_at, self._missing = None, 0

    def close(self) -> None:
        """Close the file. Pieces that are written later are lost. Does nothing if the file is closed already."""
        self._retry_at = None
        self._release()

    def _open(self) -> FileIO:
        file = self._file = _opened(self.path)
        self._begin(file)
        return file

    def _begin(self, file: FileIO) -> None:
        self._size, self._began = os.fstat(file.fileno()).st_size, None
        if self._start and not self._size:
            self._append(file, self._start)

    def _append(self, file: FileIO, piece: bytes) -> None:
        """Write a whole piece, in several writes if necessary: a pipe, or a disk that is nearly full, may accept only a part of
        the piece."""
        written = 0
        while written < len(piece):
            count = file.write(piece[written:])
            if count is None and not _has_room(file):
                raise OSError(errno.EAGAIN, "its reader has stopped reading")
            written += count or 0
        self._size += written

    def _rotate(self, size: int, now: int) -> None:
        """Begin the next file if the present file is full. An empty or special file is never full."""
        if self._began is None or now < self._began:
            self._began = now
        if self._rotation is None or self._file is None or self._size <= len(self._start):
            return
        if not self._rotation.is_due(self._size + size, now - self._began) or _must_wait(now, self._rotates_at or 0):
            return
        if self._is_regular:
            self._release()
            self._try_to_move_away(now)
            self._open()
            self._began = now

    def _try_to_move_away(self, now: int) -> None:
        """Rotate.

        If the rotation fails, the full file is continued. On Windows the rotation fails while another process reads the file.
        """
        try:
            self._move_away()
        except OSError as refused:
            if self._rotates_at is None:
                logger.warning("%s cannot be rotated (%s), and becomes larger", self.path, refused.strerror)
            self._rotates_at = now + RETRY_MS
        else:
            self._rotates_at = None

    @property
    def _is_regular(self) -> bool:
        return self._file is not None and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def _move_away(self) -> None:
        """Give the file the next number, and delete the files with the lowest numbers if there are too many files."""
        numbered = self._numbered()
        newest = max(numbered, default=0) + 1
        self.path.replace(self.path.with_name(f"{self.path.stem}.{newest:06}{self.path.suffix}"))
        for number, path in numbered.items():
            if self._rotation is not None and number <= newest - self._rotation.keep:
                path.unlink(missing_ok=True)

    def _numbered(self) -> dict[int, Path]:
        """Returns the full files by their numbers."""
        stem, suffix = re.escape(self.path.stem), re.escape(self.path.suffix)
        pattern = re.compile(rf"{stem}\.(\d{{6,12}}){suffix}")
        found = ((pattern.fullmatch(each.name), each) for each in self.path.parent.iterdir())
        return {int(match[1]): path for match, path in found if match is not None}

    def _failed(self, failure: OSError, now: int) -> None:
        """Keep the pieces that are whole, and decide whether to try again."""
        tries = self._retry_at is not None or self._file is None or self._is_regular
        if self._retry_at is None:
            then = f"wirebroker tries again every {RETRY_MS // 1000} s" if tries else "nothing more goes there"
            logger.warning("%s no longer goes to %s (%s); %s", self._what, self.path, failure.strerror, then)
        self._missing += 1
        if self._file is not None:
            with suppress(OSError):
                self._file.truncate(self._size)
        self._release()
        self._retry_at = now + RETRY_MS if tries else None

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


def _must_wait(now: int, until: int) -> bool:
    """Tells whether the time of the next try has not come. This time is `RETRY_MS` after the last try; if it is farther away,
    the clock was set back since then."""
    return 0 < until - now <= RETRY_MS


def _opened(path: Path) -> FileIO:
    """Opens a file to append to it. A write to a full pipe returns None instead of waiting. Raises OSError."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0), 0o666)  # Windows has no such pipes

    try:
        return FileIO(path, "ab", opener=opener)
    except OSError as refused:
        if refused.errno == errno.ENXIO and path.is_fifo():
            raise OSError(errno.ENXIO, "no program reads this pipe; start its reader first", str(path)) from None
        raise


def _has_room(pipe: FileIO) -> bool:
    """Waits until a full pipe has room again, or `PATIENCE_S` have passed."""
    with DefaultSelector() as selector:
        selector.register(pipe, EVENT_WRITE)
        return bool(selector.select(PATIENCE_S))
