"""Handles blanks, numbers and durations in a text as Java does.

Python's `str.strip` also removes the other blanks of Unicode, and keeps control characters.
"""

from __future__ import annotations

import re

JAVA_SPACE = " \t\n\v\f\r"
r"""The characters that `\s` matches in Java's patterns."""
_TRIMMED = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?[^\D\U00010000-\U0010ffff]+")
"""Java reads the decimal digits of every script, but no digits beyond U+FFFF."""
_DURATION = re.compile(
    r"([-+]?)P(?=.)(?:([-+]?\d{1,99})D)?(?:T(?=.)(?:([-+]?\d{1,99})H)?(?:([-+]?\d{1,99})M)?(?:([-+]?\d{1,99})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_LONG = 1 << 63


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


def parse_duration(text: str) -> int | None:
    """Returns the nanoseconds that Java's `Duration.parse` reads, for example from P1DT2H or PT-0.5S, or None if it refuses the
    text."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups("")
    parts = [int(part or 0) * unit for part, unit in ((days, 86_400), (hours, 3600), (minutes, 60), (seconds, 1))]
    if not all(-_LONG <= each < _LONG for each in (*parts, sum(parts))):
        return None
    nanos = int(fraction.ljust(9, "0")) * (-1 if seconds.startswith("-") else 1)
    return (sum(parts) * 1_000_000_000 + nanos) * (-1 if sign == "-" else 1)


def length(text: str) -> int:
    """Returns what Java's `String.length` returns: a character beyond U+FFFF counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
