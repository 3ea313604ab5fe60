"""The hash of the topics to which a group subscribes, as in the records of a group's epoch (KIP-1101, Kafka's Utils).

The hash is XXH3 with 64 bits, over the hashes of the single topics, in the order of the topics' names. A topic's hash covers
its id, its name, its number of partitions and the racks of its replicas.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from wirebroker.core.cluster import Cluster
from wirebroker.core.java_order import signed

Racks = tuple[tuple[str, ...], ...]
"""The racks of each partition's replicas; empty if no broker is in a rack."""
_WORD, _HALF = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF
_P32 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6"
    "813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931"
    "c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f"
    "95160428afd7fbcabb4b407e"
)
"""The secret of XXH3 without a seed."""
_STRIPE, _PER_BLOCK = 64, 16
_LANES = struct.Struct("<8Q")


def metadata_hash(facts: Mapping[str, tuple[bytes, int]], cluster: Cluster) -> int:
    """Returns one hash for all topics in `facts`, or 0 if `facts` is empty. `facts` has, by the topic's name, its id and its
    number of partitions."""
    if not facts:
        return 0
    hashes = [_topic_hash(name, *facts[name], _racks(name, cluster)) for name in sorted(facts)]
    return signed(xxh3(struct.pack(f"<{len(hashes)}Q", *hashes)), 64)


def _racks(name: str, cluster: Cluster) -> Racks:
    topic, racks = cluster.topics.get(name), {node: broker.rack for node, broker in cluster.brokers.items() if broker.rack}
    if topic is None or not racks:
        return ()
    return tuple(tuple(sorted(racks[node] for node in each.replicas if node in racks)) for each in topic.partitions)


@lru_cache(1024)
def _topic_hash(name: str, topic_id: bytes, partitions: int, racks: Racks) -> int:
    most, least = struct.unpack(">QQ", topic_id)
    if racks:
        held = b"".join(struct.pack("<i", i) + b"".join(map(_rack, each)) for i, each in enumerate(racks))
    else:
        held = struct.pack(f"<{partitions}i", *range(partitions))
    return xxh3(struct.pack("<BQQ", 0, most, least) + _text(name) + struct.pack("<i", partitions) + held)


def _rack(rack: str) -> bytes:
    return struct.pack("<i", len(rack)) + _text(rack)


def _text(text: str) -> bytes:
    """Returns a text as the bytes that hash4j hashes: the UTF-16 code units, and then their number."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


# XXH3


def xxh3(data: bytes) -> int:
    """Returns the XXH3 hash of the data, with 64 bits and without a seed."""
    size = len(data)
    if size > 240:
        return _of_long(data)
    if size > 16:
        return _of_medium(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        return _avalanche(size + int.from_bytes(low.to_bytes(8, "little"), "big") + high + _fold(low, high))
    if size > 3:
        first, last = int.from_bytes(data[:4], "little"), int.from_bytes(data[-4:], "little")
        mixed = (last + (first << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        mixed ^= _rotated(mixed, 49) ^ _rotated(mixed, 24)
        mixed = mixed * 0x9FB21C651E98DF25 & _WORD
        mixed = (mixed ^ (mixed >> 35) + size) * 0x9FB21C651E98DF25 & _WORD
        return mixed ^ mixed >> 28
    if size:
        mixed = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        mixed ^= (_u64(_SECRET, 0) ^ _u64(_SECRET, 4)) & _HALF
    else:
        mixed = _u64(_SECRET, 56) ^ _u64(_SECRET, 64)
    mixed = (mixed ^ mixed >> 33) * _P64[1] & _WORD
    mixed = (mixed ^ mixed >> 29) * _P64[2] & _WORD
    return mixed ^ mixed >> 32


def _of_medium(data: bytes) -> int:
    size = len(data)
    total = size * _P64[0]
    if size <= 128:
        for i in range((size - 1) // 32 + 1):
            total += _mix(data, 16 * i, 32 * i) + _mix(data, size - 16 * (i + 1), 32 * i + 16)
        return _avalanche(total)
    total = _avalanche(total + sum(_mix(data, 16 * i, 16 * i) for i in range(8)))
    total += sum(_mix(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    return _avalanche(total + _mix(data, size - 16, 136 - 17))


def _of_long(data: bytes) -> int:
    size = len(data)
    lanes = [_P32[2], *_P64[:4], _P32[1], _P64[4], _P32[0]]
    stripes = (size - 1) // _STRIPE
    for number in range(stripes):
        _accumulate(lanes, data, number * _STRIPE, 8 * (number % _PER_BLOCK))
        if number % _PER_BLOCK == _PER_BLOCK - 1:
            keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
            lanes = [((lane ^ lane >> 47) ^ key) * _P32[0] & _WORD for lane, key in zip(lanes, keys, strict=True)]
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _P64[0]
    for i in range(0, 8, 2):
        total += _fold(lanes[i] ^ _u64(_SECRET, 11 + 8 * i), lanes[i + 1] ^ _u64(_SECRET, 19 + 8 * i))
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    words, keys = _LANES.unpack_from(data, at), _LANES.unpack_from(_SECRET, secret_at)
    keyed: Sequence[int] = [word ^ key for word, key in zip(words, keys, strict=True)]
    for i in range(8):
        lanes[i] = lanes[i] + words[i ^ 1] + (keyed[i] & _HALF) * (keyed[i] >> 32) & _WORD


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product & _WORD) ^ product >> 64


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _WORD


def _avalanche(value: int) -> int:
    value &= _WORD
    value = (value ^ value >> 37) * 0x165667919E3779F9 & _WORD
    return value ^ value >> 32
