"""The errors of a damaged log directory, as sentences for the user."""

from __future__ import annotations

from pathlib import Path

LONGEST = 2000
"""Characters of a sentence. Names in it may be a stranger's."""


def printable(text: str) -> str:
    """The text, without its middle if it is very long; unprintable characters are escapes."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class DataError(OSError):
    """A log directory cannot be used; the message says what is wrong, where, and what to do.

    Nothing was changed, except for torn tails that were cut off before the error was found and are in the log.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


class DamagedFile(DataError):
    """A file that Kafka would not write; `position` is in bytes, None for the whole file."""

    def __init__(self, path: Path, why: str, position: int | None = None) -> None:
        self.path = path
        self.position = position
        self.why = why
        where = f"{path}" if position is None else f"{path}, position {position}"
        super().__init__(f"{where}: {why}")
