"""The errors of a damaged log directory, as sentences for the user."""

from __future__ import annotations

from pathlib import Path

from kafkawire.printable import printable

LONGEST = 2000
"""A sentence has at most this many characters. It may contain names that a stranger chose."""


def shortened(text: str) -> str:
    """Returns the text in a form that is safe to print. A very long text loses its middle."""
    return printable(text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}")


class DataError(OSError):
    """Raised if a log directory cannot be used. The message names the damage, the place, and the next step.

    Nothing was changed, except that torn tails may have been cut off before the error was found. The log has a line for each
    cut.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(shortened(sentence))


class DamagedFile(DataError):
    """Raised for a file that Kafka would not write. `position` is the place of the damage in bytes, or None if the whole file
    is meant."""

    def __init__(self, path: Path, why: str, position: int | None = None) -> None:
        self.path = path
        self.position = position
        self.why = why
        where = f"{path}" if position is None else f"{path}, position {position}"
        super().__init__(f"{where}: {why}")


def reason(failure: OSError) -> str:
    """Returns the reason why a file cannot be used, without the file's path."""
    return failure.why if isinstance(failure, DamagedFile) else failure.strerror or str(failure)
