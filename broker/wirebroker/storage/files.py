"""Reads, writes and replaces files. The functions work on all operating systems, and the files survive a crash.

Only this module and `kafkawire.disk.opening` open files of a log directory. This module writes only to plain files without
further hard links, and creates a file only if the name is free.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kafkawire.disk import opening
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.opening import PLAIN, open_plain, unplain
from kafkawire.primitives import Buffer


def create(path: Path, flags: int = os.O_WRONLY) -> int:
    """Create a file and return its descriptor. Raises FileExistsError if the name exists, even as a dangling link."""
    return open_plain(path, flags | os.O_CREAT | os.O_EXCL)


def open_to_write(path: Path, flags: int = os.O_WRONLY) -> int:
    """Returns a descriptor of a file, and creates the file if it is missing. The content stays unchanged. Raises DamagedFile if
    the file has other hard links.
    """
    try:
        fd = open_plain(path, flags)
    except FileNotFoundError:
        return create(path, flags)
    if os.fstat(fd).st_nlink > 1:
        os.close(fd)
        raise shared(path)
    return fd


def shared(path: Path) -> DamagedFile:
    """Returns the error for a file with several hard links. Some of these links may be outside the log directory."""
    return DamagedFile(
        path, "the file has a second name (a hard link), and a write would also change it under that name. Replace it by a copy"
    )


def make_folder(path: Path) -> None:
    """Make a folder unless it exists. Raises DamagedFile if the path is not a folder."""
    if not is_folder(path):
        path.mkdir()


def is_folder(path: Path) -> bool:
    """Tells whether a folder exists at the path. Raises DamagedFile if the path is not a folder."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(kind):
        raise unplain(path, kind)
    return True


def open_to_append_at(path: Path, size: int) -> int:
    """Open a file for reading, and for appending at position `size`. Removes any bytes after `size`, which a failed write has
    left.

    Raises FileNotFoundError if the file is missing or shorter than `size`, and OSError for other errors.
    """
    fd = open_to_write(path, os.O_RDWR | os.O_APPEND)
    try:
        found = os.fstat(fd).st_size
        if found < size:
            raise FileNotFoundError(errno.ENOENT, f"the file has only {found} of {size} bytes", str(path))
        if found > size:
            os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def open_to_read(path: Path) -> int:
    """Returns a descriptor to read a file. Raises DamagedFile if the file is not a plain file."""
    return open_plain(path, os.O_RDONLY)


def read_at(fd: int, size: int, position: int) -> bytes:
    """Returns at most `size` bytes from `position`."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.read(fd, size)


def append(fd: int, parts: Sequence[Buffer], size: int) -> None:
    """Append these parts to the file. All parts together have `size` bytes. If this raises OSError, the file may contain some
    of the bytes.
    """
    written = _write_parts(fd, parts)
    if written < size:
        left = memoryview(b"".join(parts))[written:]
        while left:
            left = left[os.write(fd, left) :]


def _one_by_one(fd: int, parts: Sequence[Buffer]) -> int:
    return sum(os.write(fd, part) for part in parts[:1])


_write_parts: Callable[[int, Sequence[Buffer]], int] = getattr(os, "writev", _one_by_one)


def replace(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file's content atomically: at any moment the file has either the whole old content or the whole new content
    (Utils.atomicMoveWithFallback).
    """
    beside = path.with_name(path.name + ".tmp")
    try:
        beside.unlink(missing_ok=True)  # a killed process may have left this file
        _fill(create(beside), content, durable=durable)
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write the whole content of a file. If this raises OSError, the file may have only a part of the content."""
    _fill(open_to_write(path), content, durable=durable)


def cut(path: Path, size: int) -> None:
    """Shorten a file to `size` bytes. Raises OSError."""
    fd = open_to_write(path)
    try:
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


def copy(source: Path, target: Path) -> None:
    """Copy a file with its times. The copy replaces an existing file. Raises OSError."""
    with opening.open_to_read(source) as file, os.fdopen(open_to_write(target), "wb") as made:
        made.truncate()
        shutil.copyfileobj(file, made, COPIED_AT_ONCE)
    shutil.copystat(source, target, follow_symlinks=False)


def _fill(fd: int, content: bytes, *, durable: bool) -> None:
    """Replace the content of an open file with these bytes, and close it."""
    try:
        os.ftruncate(fd, 0)
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


SYNCED_AT_ONCE = 16
COPIED_AT_ONCE = 1 << 20


def sync_all(paths: Sequence[Path]) -> None:
    """Sync many files, several at the same time, because the operating system merges concurrent syncs."""
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
        fd = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | PLAIN)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
