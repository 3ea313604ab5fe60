"""Handles blanks and numbers in a text as Java does.

Python's `str.strip` also removes the other blanks of Unicode, and keeps control characters.
"""

from __future__ import annotations

import re

JAVA_SPACE = " \t\n\v\f\r"
r"""The characters that `\s` matches in Java's patterns."""
_TRIMMED = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?[^\D\U00010000-\U0010ffff]+")
"""Java reads the decimal digits of every script, but no digits beyond U+FFFF."""


def trim(text: str) -> str:
    """Returns what Java's `String.trim` returns."""
    return text.strip(_TRIMMED)


def parse_integer(text: str, bits: int = 31) -> int | None:
    """Returns the number that Java's `Integer.parseInt` returns, or None if it refuses the text. With 15 or 63 bits, this is
    `Short.parseShort` or `Long.parseLong`."""
    if _INTEGER.fullmatch(text) is None:
        return None
    try:
        number = int(text)
    except ValueError:  # Python refuses to parse a number of thousands of digits
        return None
    return number if -(1 << bits) <= number < 1 << bits else None
