"""Names: which ones topics may have (org.apache.kafka.common.internals.Topic), and how Java hashes them."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """What is wrong with a topic's name, as a sentence; None if it is good."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LONGEST:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LONGEST}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


@lru_cache(maxsize=1 << 14)
def java_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned number of 32 bits."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(raw), 2):
        value = (value * 31 + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return value


def abs_hash(text: str) -> int:
    """That hash made non-negative as Kafka's Utils.abs does; it says which partition coordinates a key."""
    value = java_hash(text)
    if value == 0x80000000:
        return 0
    return value if value < 0x80000000 else 0x100000000 - value
