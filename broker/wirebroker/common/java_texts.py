"""Handles blanks in a text as Java does.

Python's `str.strip` also removes the other blanks of Unicode, and keeps control characters.
"""

from __future__ import annotations

JAVA_SPACE = " \t\n\v\f\r"
r"""The characters that `\s` matches in Java's patterns."""
_TRIMMED = "".join(map(chr, range(33)))


def trim(text: str) -> str:
    """Returns what Java's `String.trim` returns."""
    return text.strip(_TRIMMED)
