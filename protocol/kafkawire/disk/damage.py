"""The errors of a damaged log directory, as sentences for the user."""

from __future__ import annotations

from pathlib import Path


class DataError(OSError):
    """A log directory cannot be used; the message says what is wrong, where, and what to do.

    Nothing was changed, except for torn tails that were cut off before the error was found and are in the log.
    """


class DamagedFile(DataError):
    """A file differs from what Kafka writes; `position` is in bytes, None for the whole file."""

    def __init__(self, path: Path, why: str, position: int | None = None) -> None:
        self.path = path
        self.position = position
        self.why = why
        where = f"{path}" if position is None else f"{path}, position {position}"
        super().__init__(f"{where}: {why}")
