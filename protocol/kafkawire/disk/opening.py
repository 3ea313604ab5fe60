"""Opens the files of a log directory that may be hostile: links, pipes and devices are refused, and sizes have a limit.

A directory that was sent with a report may contain a link to a file of this machine. Opening a pipe would wait for ever. The
flags `O_NOFOLLOW` and `O_NONBLOCK` protect against links and pipes. On a system without these flags, the file type is checked
before the file is opened.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from kafkawire.disk.damage import DamagedFile

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
PLAIN = _NO_LINKS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""The flags with which every file of a log directory is opened."""
LARGEST_WHOLE = 256 * 1024 * 1024
"""The size limit of a file that is read into memory as a whole: an index, a checkpoint, a producer snapshot, a properties
file."""
LARGEST_LOG = 2**31 - 1
"""The largest size of a segment in bytes, as in Kafka (FileRecords)."""


def open_plain(path: Path | str, flags: int, mode: int = 0o644) -> int:
    """Returns the descriptor of a plain file. Raises DamagedFile for a link, a folder, a pipe or a device, and OSError for any
    other failure."""
    if not _NO_LINKS and os.path.islink(path):
        raise unplain(Path(path), stat.S_IFLNK)
    try:
        fd = os.open(path, flags | PLAIN, mode)
    except OSError as refused:
        kind = _kind_of(path)
        if stat.S_ISREG(kind) or not kind:
            raise
        raise unplain(Path(path), kind) from refused
    kind = os.fstat(fd).st_mode
    if not stat.S_ISREG(kind):
        os.close(fd)
        raise unplain(Path(path), kind)
    return fd


def open_to_read(path: Path, buffering: int = -1) -> BinaryIO:
    """Opens a file for reading. Raises DamagedFile if the file is not a plain file. Also raises FileNotFoundError and other
    OSErrors.

    If the path is in an object store, its own method opens the file. This is safe, because an object store has only plain
    files.
    """
    if not isinstance(path, Path):
        return path.open("rb")
    return open(path, "rb", buffering, opener=open_plain)


def read_whole(path: Path) -> bytes:
    """Returns all bytes of a file. Raises OSError. Raises DamagedFile if the file is not plain, or too large."""
    with open_to_read(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > LARGEST_WHOLE:
            raise DamagedFile(path, f"it has {size} bytes, but such a file may have at most {LARGEST_WHOLE}")
        file.seek(0)
        return file.read()


def read_text(path: Path) -> str:
    """Returns all of a file as text. Raises UnicodeDecodeError, and the errors of `read_whole`."""
    return read_whole(path).decode().replace("\r\n", "\n")


def check_size(path: Path, size: int) -> None:
    """Raises DamagedFile for a log larger than a segment can be."""
    if size > LARGEST_LOG:
        raise DamagedFile(path, f"it has {size} bytes, but a segment may have at most {LARGEST_LOG}")


def unplain(path: Path, mode: int) -> DamagedFile:
    """Returns the error for a path with the wrong type of file, such as a folder in place of a file. `mode` is the file mode
    that the system reports for the path.
    """
    if stat.S_ISDIR(mode):
        return DamagedFile(path, "this is a folder where a file should be. Restore the file from a copy")
    if stat.S_ISREG(mode):
        return DamagedFile(path, "this is a file where a folder should be. Move it elsewhere")
    kind = next((words for is_one, words in _KINDS if is_one(mode)), "not a file")
    return DamagedFile(
        path, f"this is {kind}; a log directory holds only files and folders. Put the file or folder itself here"
    )


_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _kind_of(path: Path | str) -> int:
    """Returns the mode of the file at the path, or 0 if the file does not exist. If the file is a link, returns the mode of the
    link itself."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0
