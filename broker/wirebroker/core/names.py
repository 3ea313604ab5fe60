"""The rules for topic names (org.apache.kafka.common.internals.Topic), and Java's hashes and hash tables of strings."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import mul
from typing import TypeVar

K = TypeVar("K")
LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_NOT_IN_PATHS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Java's char values that ZooKeeper refuses. Characters beyond 0xffff consist of two refused values."""


def topic_name_error(name: str) -> str | None:
    """Returns Kafka's message about an invalid topic name, or None if the name is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LONGEST:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LONGEST}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def ends_zookeeper_path(name: str) -> bool:
    """Tells whether a path in ZooKeeper can end with `name` (ZooKeeper's PathUtils.validatePath)."""
    return _NOT_IN_PATHS.search(name) is None and not any(part in ("", ".", "..") for part in name.split("/"))


def java_hash(text: str) -> int:
    """Returns Java's `String.hashCode`, as an unsigned number of 32 bits."""
    return _remembered_hash(text) if len(text) <= LONGEST else _hash(text)


def _hash(text: str) -> int:
    """Sum the code units, each times a power of 31, block by block, because one `sum` of a block is faster than a loop in
    Python."""
    units = array("H", text.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be", "surrogatepass"))
    value = 0
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK]
        value = value * pow(31, len(block), 1 << 32) + sum(map(mul, block, _POWERS[_BLOCK - len(block) :]))
        value &= 0xFFFFFFFF
    return value


_BLOCK = 256
_POWERS = [pow(31, _BLOCK - 1 - index, 1 << 32) for index in range(_BLOCK)]
_remembered_hash = lru_cache(maxsize=1 << 15)(_hash)


def abs_hash(text: str) -> int:
    """Returns `java_hash` of the text, made non-negative as by Kafka's Utils.abs. This hash of a group id or a transactional id
    selects the partition of the coordinator's topic."""
    value = java_hash(text)
    if value == 0x80000000:
        return 0
    return value if value < 0x80000000 else 0x100000000 - value


def buckets_for(count: int, capacity: int = 16) -> int:
    """Returns the number of buckets of a Java HashMap that was made with this capacity, after `count` keys were put into it one
    by one."""
    buckets = 1 << max(capacity - 1, 0).bit_length()
    while count * 4 > buckets * 3:
        buckets *= 2
    return buckets


def hash_order(keys: Iterable[K], hashed: Callable[[K], int], buckets: int) -> list[K]:
    """Returns the keys in the order in which a Java HashMap with `buckets` buckets iterates over them. `keys` are in the order
    in which they were inserted."""
    mask, keys = buckets - 1, list(keys)
    if len(keys) < 2:
        return keys

    def bucket(key: K) -> int:
        code = hashed(key)
        return (code ^ code >> 16) & mask

    return sorted(keys, key=bucket)
