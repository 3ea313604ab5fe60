"""Java's hashes, and the iteration order of its hash tables.

Kafka iterates over hash tables, so the iteration order decides assignments, and the order of the entries in many responses.
This module computes two orders: the order of java.util.HashMap (its tables only grow), and the order of Kafka's own
TimelineHashMap.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import lru_cache
from operator import mul
from typing import Any, Generic, Protocol, TypeVar

from wirebroker.common.slices import TOPICS, Pause, pauses

K = TypeVar("K")


class Topic(Protocol):
    topic_id: bytes


SMALLEST = 16
"""The initial number of buckets of a HashMap."""
FIBONACCI = -7046029254386353131
LONG = 0xFFFFFFFFFFFFFFFF
REMEMBERED = 249
"""The hashes of texts up to this length are remembered. This is the length of the longest topic name."""


def text_order(text: str) -> bytes:
    """Returns a key that sorts texts as Java's String.compareTo does: characters beyond U+FFFF come before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Returns Java's `String.hashCode`, as an unsigned number of 32 bits."""
    return _remembered_hash(text) if len(text) <= REMEMBERED else _hash(text)


def _hash(text: str) -> int:
    """Multiply each code unit by a power of 31, and add up the products, block by block. One `sum` of a block is faster than a
    loop in Python."""
    units = array("H", text.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be", "surrogatepass"))
    value: int = 0
    if len(units) <= _BLOCK:
        value = sum(map(mul, units, _POWERS[_BLOCK - len(units) :]))
        return value & 0xFFFFFFFF
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


def buckets_for(count: int, capacity: int = SMALLEST) -> int:
    """Returns the number of buckets of a Java HashMap. The HashMap was made with this capacity, and then `count` keys were put
    into it one by one."""
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


def hash_order_in_slices(
    keys: Iterable[str], hashed: Callable[[str], int], buckets: int, pause: Pause
) -> Generator[None, Any, list[str]]:
    """Returns the same as `hash_order`, but in slices."""
    codes = {}
    for key in keys:
        yield from pause()
        codes[key] = hashed(key)
    return hash_order(keys, codes.__getitem__, buckets)


@lru_cache(1 << 15)
def signed(number: int, bits: int = 32) -> int:
    """Returns the number cast to Java's `int` (or, with 64 bits, to `long`), which wraps around."""
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def uuid_hash(raw: bytes) -> int:
    """Returns Kafka's `Uuid.hashCode` of 16 raw bytes, as an unsigned number of 32 bits."""
    folded = int.from_bytes(raw[:8], "big") ^ int.from_bytes(raw[8:], "big")
    return (folded >> 32 ^ folded) & 0xFFFFFFFF


def partition_hash(where: tuple[str, int]) -> int:
    """Returns Kafka's `TopicPartition.hashCode` of a topic's name and a partition, as an unsigned number of 32 bits."""
    topic, index = where
    return (31 * (31 + index) + java_hash(topic)) & 0xFFFFFFFF


def uuid_order(raw: bytes) -> tuple[int, int]:
    """Returns a sort key for the order of Kafka's `Uuid.compareTo`, which compares both halves as signed numbers."""
    return int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True)


def buckets_of_copy(count: int) -> int:
    """Returns the number of buckets of a HashSet made from a collection of `count` elements."""
    wanted = max(int(count / 0.75) + 1, SMALLEST)
    return 1 << (wanted - 1).bit_length()


def set_of_names(names: Iterable[str]) -> list[str]:
    """Returns the different strings in the order in which a Java HashSet with these strings has them."""
    once = list(dict.fromkeys(names))
    return hash_order(once, java_hash, buckets_of_copy(len(once)))


def topic_ids(names: Iterable[str], topics: Mapping[str, Topic]) -> Generator[None, Any, list[bytes]]:
    """Returns the ids of the topics in `names`, in the order in which a Java HashSet has the names. Topics that do not exist
    are left out. Runs in slices."""
    in_turn, pause = sorted(names), pauses(TOPICS)
    for name in in_turn:
        java_hash(name)  # `java_hash` remembers the result
        yield from pause()
    return [topics[name].topic_id for name in set_of_names(in_turn) if name in topics]


def set_of_numbers(numbers: Iterable[int]) -> tuple[int, ...]:
    """Returns these small numbers in the order of a HashSet made from them."""
    given = tuple(numbers)
    if len(given) < 2:
        return given
    mask = buckets_of_copy(len(given)) - 1
    if max(given, default=0) >= 1 << 16:
        return tuple(hash_order(given, int, mask + 1))
    return tuple(sorted(given, key=mask.__and__))  # a HashMap mixes in the upper half of the hash, which is 0 here


class TimelineOrder:
    """The order of the keys of a TimelineHashMap. Call `put` whenever Kafka puts a key into the table, because this can make
    the table grow. The table never shrinks."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets = 2

    def put(self, size: int) -> None:
        """Register that a key was put into the table, which had `size` keys before. The key may be new or known."""
        if (size + 1) * 3 > self._buckets * 4:
            self._buckets *= 2

    def of(self, keys: Iterable[str]) -> list[str]:
        """Returns the keys in the order of the table. The argument `keys` has the keys in the order in which they were first
        put into the table."""
        shift = 65 - self._buckets.bit_length()

        def slot(key: str) -> int:
            code = java_hash(key)
            return (signed(code) * FIBONACCI & LONG) >> shift

        backwards = list(keys)
        backwards.reverse()  # in each slot, the key that was put last comes first
        return sorted(backwards, key=slot)


class JavaHeap(Generic[K]):
    """A priority queue with the order of java.util.PriorityQueue. Python's heapq would return equal elements in another
    order."""

    __slots__ = ("_heap", "_key")

    def __init__(self, elements: Iterable[K], key: Callable[[K], float]) -> None:
        self._heap: list[K] = []
        self._key = key
        for each in elements:
            self.push(each)

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, element: K) -> None:
        heap, key = self._heap, self._key
        at = len(heap)
        heap.append(element)
        while at > 0 and key(element) < key(heap[above := (at - 1) >> 1]):
            heap[at], at = heap[above], above
        heap[at] = element

    def pop(self) -> K:
        """Take out a smallest element. Raises IndexError if the queue is empty."""
        heap, key = self._heap, self._key
        smallest, last = heap[0], heap.pop()
        at, size = 0, len(heap)
        while at < size >> 1:
            below = 2 * at + 1
            if below + 1 < size and key(heap[below]) > key(heap[below + 1]):
                below += 1
            if key(last) <= key(heap[below]):
                break
            heap[at], at = heap[below], below
        if heap:
            heap[at] = last
        return smallest
