"""The iteration order of Scala's hash tables, for releases of Kafka whose broker is written in Scala. The order of an immutable
HashMap decides which protocol a classic group chooses. The order of a mutable HashMap decides where new logs are put."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from wirebroker.core.releases.changes import ByRelease

SCALA = ByRelease(12).then("2.4", 13, "new logs go to several directories in the order of Scala 2.13's hash tables")
"""For releases with ZooKeeper: the minor version of Scala 2 with which the release is built."""

K = TypeVar("K")
_BUCKETS, _FULL = 16, 0.75
"""The initial number of buckets of a mutable HashMap, and the ratio of entries to buckets at which it grows."""
_GOLDEN, _SEED = 0x9E3775CD, 4
"""The factor and the rotation in the hash function of Scala 2.12 (scala.util.hashing.byteswap32, HashTable.improve)."""
_BITS, _DEPTH = 5, 6
"""An inner node of an immutable HashMap uses five bits of the hash. The deepest node has depth 6."""
_WORD = 0xFFFFFFFF


def hash_order_12(keys: Iterable[K], hashed: Callable[[K], int]) -> list[K]:
    """Returns the keys in the order of a mutable HashMap of Scala 2.12. The keys were put into the HashMap one by one.

    The table doubles its buckets, puts a new entry before the other entries of its bucket, and iterates from the last bucket to
    the first bucket.
    """
    table: list[list[K]] = [[] for _ in range(_BUCKETS)]

    def put(key: K) -> None:
        mixed = int.from_bytes((hashed(key) * _GOLDEN & _WORD).to_bytes(4, "little"), "big") * _GOLDEN & _WORD
        rotated = (mixed >> _SEED | mixed << 32 - _SEED) & _WORD
        table[rotated * len(table) >> 32].insert(0, key)

    for count, key in enumerate(keys, 1):
        put(key)
        if count > len(table) * _FULL:
            before = [each for bucket in reversed(table) for each in bucket]
            table = [[] for _ in range(2 * len(table))]
            for each in before:
                put(each)
    return [each for bucket in reversed(table) for each in bucket]


def trie_order_13(keys: Iterable[K], hashed: Callable[[K], int], depth: int = 0) -> list[K]:
    """Returns the keys in the order of an immutable HashMap of Scala 2.13 (BitmapIndexedMapNode).

    A node looks at five bits of each key's hash. First come the keys that share these bits with no other key of the node; then
    come the keys of the inner nodes.
    """
    places: dict[int, list[K]] = {}
    for key in keys:
        places.setdefault(_improved(hashed(key)) >> _BITS * depth & 31, []).append(key)
    in_order = [places[bits] for bits in sorted(places)]
    alone = [each[0] for each in in_order if len(each) == 1]
    shared = [each for each in in_order if len(each) > 1]
    if depth < _DEPTH:
        shared = [trie_order_13(each, hashed, depth + 1) for each in shared]
    return alone + [key for each in shared for key in each]


def _improved(code: int) -> int:
    """scala.collection.Hashing.improve."""
    code = code + (~(code << 9) & _WORD) & _WORD
    code ^= code >> 14
    code = code + (code << 4) & _WORD
    return code ^ code >> 10
