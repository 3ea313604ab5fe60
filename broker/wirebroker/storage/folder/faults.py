"""What can be wrong with a data directory, as sentences for the user."""

from __future__ import annotations

from pathlib import Path


class DataError(OSError):
    """A data directory cannot be used; the message says what is wrong, where, and what to do. Nothing was changed."""


class DamagedFile(DataError):
    """A file is not what Kafka would have written; `position` is in bytes, None where it is the whole file."""

    def __init__(self, path: Path, why: str, position: int | None = None) -> None:
        self.path = path
        self.position = position
        where = f"{path}" if position is None else f"{path}, position {position}"
        super().__init__(f"{where}: {why}")
