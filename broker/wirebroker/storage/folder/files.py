"""Reading, writing and replacing files: where systems differ, and where a crash may interrupt."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kafkawire.primitives import Buffer

_BINARY = getattr(os, "O_BINARY", 0)


def open_to_append(path: Path) -> int:
    """A descriptor for reading anywhere and writing at the end of the file, which is created if it is missing."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o644)


def open_to_append_at(path: Path, size: int) -> int:
    """Open a file of this size to append. Bytes after it, from a failed write, are cut off.

    Raises OSError, FileNotFoundError also if something is missing.
    """
    fd = open_to_append(path)
    try:
        found = os.fstat(fd).st_size
        if found < size:
            raise FileNotFoundError(errno.ENOENT, f"{found} of {size} bytes are there", str(path))
        if found > size:
            os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def open_to_read(path: Path) -> int:
    """A descriptor for reading."""
    return os.open(path, os.O_RDONLY | _BINARY)


def read_at(fd: int, size: int, position: int) -> bytes:
    """At most `size` bytes from `position`."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.read(fd, size)


def append(fd: int, parts: Sequence[Buffer], size: int) -> None:
    """Append these parts, together `size` bytes. Raises OSError; then some of the bytes may be written."""
    written = _write_parts(fd, parts)
    if written < size:
        left = memoryview(b"".join(parts))[written:]
        while left:
            left = left[os.write(fd, left) :]


def _one_by_one(fd: int, parts: Sequence[Buffer]) -> int:
    return sum(os.write(fd, part) for part in parts[:1])


_write_parts: Callable[[int, Sequence[Buffer]], int] = getattr(os, "writev", _one_by_one)


def replace(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace the content: at any moment the file has all of the old or of the new (Utils.atomicMoveWithFallback)."""
    beside = path.with_name(path.name + ".tmp")
    try:
        write(beside, content, durable=durable)
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write the whole content of a file. Raises OSError; then the file may have a part of it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


SYNCED_AT_ONCE = 16


def sync_all(paths: Sequence[Path]) -> None:
    """Sync many files, several at once: the system joins syncs that it gets together."""
    if len(paths) <= SYNCED_AT_ONCE:
        for path in paths:
            sync(path)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
        for _ in pool.map(sync, paths):
            pass


def sync(path: Path) -> None:
    """Sync a file or folder, unless it was removed."""
    if path.is_dir() and os.name == "nt":
        return
    try:
        fd = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | _BINARY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
