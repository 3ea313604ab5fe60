"""Locks a data directory, because only one process may use it. Kafka locks the same file, `.lock` (FileLock), so a wirebroker
and a Kafka cannot use the same directory.

Kafka's lock is a POSIX lock. A process loses such a lock when it closes any descriptor of the file, for example after copying
the folder. On Linux this module instead uses an OFD lock, which belongs to the open file. An OFD lock and another process's
POSIX lock exclude each other. On other POSIX systems this module also locks a second file. A process does not lose the lock on
this file in this way.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from kafkawire.disk.damage import DataError
from wirebroker.storage import files

LOCK = ".lock"
SECOND_LOCK = ".lock.flock"
HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
"""The errors with which the system reports that another process holds the lock."""
_held: set[Path] = set()
"""The directories that this process has locked. This set is needed because some kinds of lock do not prevent a second use in
the same process.
"""


class DirectoryLock:
    """A lock on a directory, which is held until `release` or until the process ends. Raises DataError if another process holds
    the lock.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._taken: list[tuple[int, Callable[[int, bool], None]]] = []
        if self._root in _held:
            raise _in_use(root)
        try:
            for name, lock in _locks():
                self._take(root / name, lock)
        except OSError as refused:
            self.release()
            if refused.errno in HELD:
                raise _in_use(root) from None
            raise
        _held.add(self._root)

    def _take(self, path: Path, lock: Callable[[int, bool], None]) -> None:
        fd = files.open_to_write(path, os.O_RDWR)
        try:
            lock(fd, True)
        except OSError:
            os.close(fd)
            raise
        self._taken.append((fd, lock))

    def release(self) -> None:
        """Release the lock. A second call does nothing. After this call a forked process does not hold the lock either."""
        for fd, lock in self._taken:
            try:
                lock(fd, False)
            finally:
                os.close(fd)
        if self._taken:
            _held.discard(self._root)
        self._taken = []


def _in_use(root: Path) -> DataError:
    return DataError(
        f"{root} is in use by another broker, which holds {root / LOCK}; stop the other broker, or use another directory"
    )


def _locks() -> list[tuple[str, Callable[[int, bool], None]]]:
    """Returns the names of the files to lock, each with the function that locks or unlocks it. The functions raise OSError."""
    if sys.platform == "win32":
        return [(LOCK, _byte)]
    if sys.platform == "linux":
        return [(LOCK, _open_file)]
    return [(LOCK, _process), (SECOND_LOCK, _flock)]


def _byte(fd: int, hold: bool) -> None:
    import msvcrt

    msvcrt.locking(fd, msvcrt.LK_NBLCK if hold else msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]


def _open_file(fd: int, hold: bool) -> None:
    import fcntl

    whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK if hold else fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole_file)
    except OSError as refused:
        if refused.errno != errno.EINVAL:
            raise
        _process(fd, hold)  # the system claims to be Linux, but has no OFD locks


def _process(fd: int, hold: bool) -> None:
    import fcntl

    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if hold else fcntl.LOCK_UN)


def _flock(fd: int, hold: bool) -> None:
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if hold else fcntl.LOCK_UN)
