"""TOML that wirebroker reads and writes."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from kafkawire.printable import as_toml, printable

MOST_DOTS = 100
"""The largest number of dots outside the texts of a line: tomllib's time for a dotted key grows with the square of its
parts."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


class NotToml(ValueError):
    """Raised for a text that is not TOML. The message begins with the place."""


def read_toml(text: str, where: str) -> dict[str, Any]:
    """Returns the document in a text. Raises NotToml, which names the file as `where`."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS and _TEXT.sub("", line).count(".") > MOST_DOTS:
            raise NotToml(f"{where}:{number}: this line has more than {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as wrong:  # a number of thousands of digits raises a plain ValueError
        raise NotToml(f"{where}: this is not TOML: {wrong}") from None


def toml_of(value: Any) -> str:
    """Returns a text, a number, a truth value, or a list of them as TOML, which is JSON except for a few characters."""
    return printable(json.dumps(value, ensure_ascii=False), as_toml)
