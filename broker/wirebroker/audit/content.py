"""The hashes that identify a record. Spark has the same hash functions built in, so both audits agree.

    digest(data)                      SHA-256 in hexadecimal            sha2(data, 256)
    content_hash(key, value, headers) digest of the parts' digests,     sha2(concat_ws(':', sha2(key, 256), …), 256)
                                      in this order, joined by colons

A part that is null is written as `-`. Each header has two parts, its name and its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from kafkawire.primitives import Buffer

SHOWN = 40
"""Explanations show this many characters of a key or value."""
UNFOLDED = 1 << 30
"""In an audit, a stored batch may have at most this many bytes after decompression. Brokers limit only the stored size, so a
larger batch does not count as damaged."""


def digest(data: Buffer | None) -> str | None:
    """Returns the SHA-256 in hexadecimal, or None if `data` is None."""
    return None if data is None else sha256(data).hexdigest()


def content_hash(key: bytes | None, value_hash: str | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> str:
    """Returns the hash of a whole record, from its key, the digest of its value, and its headers."""
    parts = [digest(key), value_hash]
    for name, content in headers:
        parts += [digest(name.encode()), digest(content)]
    return sha256(":".join(part or "-" for part in parts).encode()).hexdigest()


def head(data: bytes | None) -> str:
    """Returns the beginning of the data, as one printable line."""
    if data is None:
        return "null"
    text = data[: SHOWN * 4].decode(errors="replace")
    shown = text[:SHOWN]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else "\N{MIDDLE DOT}" for each in shown)
    return f"'{shown}{'…' if len(text) > SHOWN or len(data) > SHOWN * 4 else ''}'"
