"""TOML that wirebroker reads and writes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from kafkawire.printable import as_toml, printable

MOST_DOTS = 100
"""A line may have at most this many dots outside quoted strings: tomllib's time for a dotted key grows with the square of the
number of the key's parts."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def text_of(path: Path, error: type[Exception]) -> str:
    """Returns the text of a file. Raises OSError if the file cannot be read, and `error` if the text is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise error(f"{path}: this is not UTF-8: {wrong}") from None


def read_toml(text: str, where: str, error: type[Exception]) -> dict[str, Any]:
    """Parses a TOML text. Raises `error` if the text is not TOML; the message calls the file `where`."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS and _TEXT.sub("", line).count(".") > MOST_DOTS:
            raise error(f"{where}:{number}: this line has more than {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as wrong:  # a number of thousands of digits raises a plain ValueError
        raise error(f"{where}: this is not TOML: {wrong}") from None


def toml_file(path: str, error: type[Exception]) -> dict[str, Any]:
    """Parses a TOML file. Raises OSError if the file cannot be read, and `error` if it is not TOML in UTF-8."""
    return read_toml(text_of(Path(path), error), path, error)


def toml_of(value: Any) -> str:
    """Returns a text, a number, a boolean, or a list of such values as TOML.

    This form differs from JSON only in a few characters.
    """
    return printable(json.dumps(value, ensure_ascii=False), as_toml)
