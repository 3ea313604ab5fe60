"""Parses Java's properties files with their comments, continued lines and escapes (java.util.Properties)."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Returns the values by name. If a name occurs twice, the last value counts, as in Java."""
    pairs = (_PAIR.fullmatch(line) for line in _logical_lines(text))
    return {_unescaped(each[1]): _unescaped(each[2]) for each in pairs if each is not None}


def _logical_lines(text: str) -> Iterator[str]:
    """Yields the lines without comments. A line that ends in an odd number of backslashes is joined with the next line."""
    begun = ""
    for line in text.splitlines():
        stripped = line.lstrip(" \t\f")
        if not begun and (not stripped or stripped[0] in "#!"):
            continue
        begun += stripped
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        word = match[1]
        return chr(int(word[1:], 16)) if len(word) == 5 else _MEANT.get(word, word)

    return _ESCAPE.sub(meant, text)
