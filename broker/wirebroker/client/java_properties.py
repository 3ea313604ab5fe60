"""Parses Java's properties files with their comments, continued lines and escapes (java.util.Properties)."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Returns the values by name. If a name occurs twice, the last value counts, as in Java. Raises ValueError for a damaged
    escape."""
    pairs = (_PAIR.fullmatch(line) for line in _logical_lines(text))
    return {_unescaped(each[1]): _unescaped(each[2]) for each in pairs if each is not None}


def _logical_lines(text: str) -> Iterator[str]:
    """Yields the lines without comments. A line that ends in an odd number of backslashes is joined with the next line."""
    begun, continues = "", False
    for line in _LINE_END.split(text):
        stripped = line.lstrip(_BLANK)
        if not continues and (not stripped or stripped[0] in "#!"):
            continue
        begun += stripped
        continues = (len(begun) - len(begun.rstrip("\\"))) % 2 == 1
        if continues:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        word = match[1]
        if word == "u":
            raise ValueError("after \\\\u there are not four hexadecimal digits")
        return chr(int(word[1:], 16)) if len(word) == 5 else _MEANT.get(word, word)

    return _ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
