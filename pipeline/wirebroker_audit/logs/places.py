"""Reads the paths that the command takes: plain paths and `file:` addresses."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from wirebroker_audit.reading.remote import SCHEMES, place

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
"""A scheme has two letters or more, because `C:/logs` is a path."""


class BadPlace(Exception):
    """Raised for an address of another machine. The message names the address, and says what to do."""


def is_elsewhere(text: str) -> bool:
    """Tells whether the text is an address whose scheme is not `file:`."""
    match = _ADDRESS.match(text)
    return match is not None and match[1].lower() != "file"


def local_path(text: str, flag: str) -> Path:
    """Returns the path in a plain text or a `file:` address. Raises BadPlace."""
    if (match := _ADDRESS.match(text)) is None:
        return Path(text)
    if is_elsewhere(text):
        raise BadPlace(
            f"{flag} {text}: the audit cannot open {match[1]}: addresses here; it can open only paths and file: addresses. "
            "Mount the place on this machine and on the executors, or copy what is to be audited"
        )
    found = urlsplit(text)
    if found.netloc not in ("", "localhost"):
        raise BadPlace(f"{flag} {text}: the address names the host {found.netloc}; write file:/// for a path of this machine")
    return Path(unquote(found.path))


def log_path(text: str, flag: str) -> Path:
    """Returns the place of a log directory: a path, a `file:` address, or an address of `remote.SCHEMES`. Raises BadPlace."""
    match = _ADDRESS.match(text)
    return place(text) if match is not None and match[1].lower() in SCHEMES else local_path(text, flag)


def input_path(text: str, flag: str) -> str:
    """Returns the place for Spark's own readers: `file:` addresses as paths, other addresses unchanged. Raises BadPlace."""
    return text if is_elsewhere(text) else str(local_path(text, flag))
