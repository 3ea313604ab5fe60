"""One process to a data directory: `.lock`, as Kafka has it (FileLock), so that a running Kafka counts as well."""

from __future__ import annotations

import os
from pathlib import Path

from wirebroker.storage.folder.faults import DataError

LOCK = ".lock"
_held: set[Path] = set()
"""The directories that this process has locked; the system's locks are between processes."""


class DirectoryLock:
    """Held until `release`, or until the process ends. Raises DataError if somebody else has it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._fd = -1
        if self._root in _held:
            raise _in_use(root)
        self._fd = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._fd)
        except OSError:
            os.close(self._fd)
            raise _in_use(root) from None
        _held.add(self._root)

    def release(self) -> None:
        """Let others in; harmless if it was done before."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self._root)


def _in_use(root: Path) -> DataError:
    return DataError(
        f"{root} is in use by another broker, which holds {root / LOCK}; stop that one, or give this one another directory"
    )


def _lock(fd: int) -> None:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
