"""By what a record is known again: hashes that Spark has built in, so that both audits come to the same ones.

    digest(data)                      SHA-256 in hexadecimal            sha2(data, 256)
    content_hash(key, value, headers) digest of the parts' digests,     sha2(concat_ws(':', sha2(key, 256), …), 256)
                                      in this order, joined by colons

A part that is null stands as `-` among the parts. Of headers, each has two parts, its name and its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

SHOWN = 40
"""Characters of a key or value that explanations show."""
UNFOLDED = 1 << 30
"""Bytes that a stored batch may unfold into for an audit: brokers limit what is stored alone, so that this is no damage."""


def digest(data: bytes | None) -> str | None:
    """SHA-256 in hexadecimal; None of None."""
    return None if data is None else sha256(data).hexdigest()


def content_hash(key: bytes | None, value_hash: str | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> str:
    """The hash of a whole record, by its key, the digest of its value, and its headers."""
    parts = [digest(key), value_hash]
    for name, content in headers:
        parts += [digest(name.encode()), digest(content)]
    return sha256(":".join(part or "-" for part in parts).encode()).hexdigest()


def head(data: bytes | None) -> str:
    """How the data begins, as one line that can be read."""
    if data is None:
        return "null"
    text = data[: SHOWN * 4].decode(errors="replace")
    shown = text[:SHOWN]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else "\N{MIDDLE DOT}" for each in shown)
    return f"'{shown}{'…' if len(text) > SHOWN or len(data) > SHOWN * 4 else ''}'"
