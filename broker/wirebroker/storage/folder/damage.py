"""What can be wrong with a data directory, as sentences for the user."""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger("wirebroker")


def note(sentence: str) -> None:
    """Say what was found and done; at once, so that it is said as well where what follows fails."""
    logger.warning("%s", sentence)


class DataError(OSError):
    """A data directory cannot be used; the message says what is wrong, where, and what to do.

    Nothing was changed but torn tails that were cut off before it was met, and `note` has told of those.
    """


class DamagedFile(DataError):
    """A file is not what Kafka would have written; `position` is in bytes, None where it is the whole file."""

    def __init__(self, path: Path, why: str, position: int | None = None) -> None:
        self.path = path
        self.position = position
        self.why = why
        where = f"{path}" if position is None else f"{path}, position {position}"
        super().__init__(f"{where}: {why}")
