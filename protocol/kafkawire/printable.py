"""Makes foreign text safe for people: on a terminal, in a log, in a report, on a page.

A client chooses its names, and a capture or a data directory may come from a stranger. A name may contain escape sequences for
a terminal, line ends that forge a row, marks that reverse the text direction, or invisible characters. Every output for people
passes its text through `printable`. Output for programs (JSON Lines, captures, the control) is not changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Invisible characters that Unicode counts as letters, marks or symbols."""


def as_json(letter: str) -> str:
    """Returns the character as JSON writes it: `\\n`, `\\u001b`, `\\u202e`."""
    return json.dumps(letter)[1:-1]


def as_toml(letter: str) -> str:
    """Returns the character as TOML writes it. TOML has no surrogate pairs."""
    return as_json(letter) if ord(letter) <= 0xFFFF else f"\\U{ord(letter):08x}"


def printable(text: str, write: Callable[[str], str] = as_json) -> str:
    """Returns the text on one line, with invisible characters as escapes. If the text is JSON, it still has the same
    meaning."""
    if text.isprintable() and (text.isascii() or not UNSEEN.search(text)):
        return text
    return "".join(each if each.isprintable() and not UNSEEN.match(each) else write(each) for each in text)


def printable_lines(text: str) -> str:
    """Returns a text of several lines in printable form; the line ends, which are wirebroker's own, are kept."""
    return "\n".join(map(printable, text.split("\n")))
