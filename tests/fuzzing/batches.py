"""Record data for fuzzed Produce requests: good batches, and batches with a wrong header, wrong records or wrong
compression.
"""

from __future__ import annotations

import struct
from random import Random

from kafkawire.batches import CONTROL, HEADER_SIZE, TRANSACTIONAL, Record, build_batch, read_header, seal
from kafkawire.compression import compress

NUMBERS = (
    -(2**63),
    -(2**31),
    -(2**31) + 1,
    -(2**15),
    -2,
    -1,
    0,
    1,
    2,
    2**15 - 1,
    2**31 - 2,
    2**31 - 1,
    2**31,
    2**63 - 1,
)
"""Boundary values of fields of any size."""
WIDTHS = {
    "base_offset": 64, "partition_leader_epoch": 32, "attributes": 16, "last_offset_delta": 32, "base_timestamp": 64,
    "max_timestamp": 64, "producer_id": 64, "producer_epoch": 16, "base_sequence": 32, "records_count": 32,
}  # fmt: skip
VARINTS = (
    b"\x01",
    b"\x7f",
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 11,
    b"\x00",
)
BOMB = 1 << 20


def fit(number: int, bits: int) -> int:
    """Returns the lowest `bits` bits of the number as a signed integer, as a cast in Java does."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def good_batch(
    random: Random, now: int, *, producer_id: int = -1, epoch: int = -1, sequence: int = -1, transactional: bool = False
) -> bytes:
    """Returns a batch of a few records that a broker accepts."""
    count = random.choice((1, 1, 1, 2, 3, 5, 40))
    records = [_record(random, number) for number in range(count)]
    return build_batch(
        records, base_timestamp=now - random.choice((0, 0, 5, 1000)), producer_id=producer_id, producer_epoch=epoch,
        base_sequence=sequence, compression=random.choice((0, 0, 0, 1, 2, 3, 4)), transactional=transactional,
    )  # fmt: skip


def _record(random: Random, number: int) -> Record:
    key = random.choice((b"k%d" % random.randrange(5), b"k", b"", None))
    value = random.choice((b"v" * random.randrange(200), b"", None, random.randbytes(30)))
    headers = [("h", b"1"), ("größe", None)] if random.random() < 0.1 else []
    return Record(number, random.choice((0, 0, 1, 10)), key, value, headers)


def damaged_batch(random: Random, batch: bytes) -> bytes:
    """Returns the batch with an error. In most cases the CRC is valid, so that the broker reads the rest of the batch."""
    ways = (_header, _header, _header, _body, _body, _records, _compression, _bomb, _marker, _bytes, _several, _old)
    return (random.choice(ways) if len(batch) >= HEADER_SIZE else _bytes)(random, batch)


def _header(random: Random, batch: bytes) -> bytes:
    header = read_header(batch)
    changes = {}
    for name in random.sample(sorted(WIDTHS), random.choice((1, 1, 2, 3))):
        value = getattr(header, name)
        chosen = random.choice((*NUMBERS, value + 1, value - 1, value ^ (1 << random.randrange(WIDTHS[name]))))
        changes[name] = fit(chosen, WIDTHS[name])
    return seal(header._replace(**changes), batch[HEADER_SIZE:])


def _body(random: Random, batch: bytes) -> bytes:
    body = bytearray(batch[HEADER_SIZE:])
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(body) + 1)
        body[at : at + random.choice((0, 1, 1, 5))] = random.choice((*VARINTS, random.randbytes(1), b""))
    return seal(read_header(batch), body[: random.choice((len(body), len(body), max(len(body) - 1, 0), 0))])


def _records(random: Random, batch: bytes) -> bytes:
    """Replaces the records by other records, whose offsets, times and order contradict the header."""
    deltas = random.choice(((0, 0), (1, 0), (5, 6), (0, 2**31 - 1), (-1, 0), (2**31 - 2, 2**31 - 1)))
    times = random.choice((0, -1, 2**62, -(2**62), 2**63 - 1))
    records = [Record(delta, times, b"key", b"value") for delta in deltas]
    try:
        made = build_batch(records)
    except (struct.error, ValueError):
        return batch
    header = read_header(batch)._replace(attributes=0, records_count=len(records))
    return seal(header._replace(last_offset_delta=random.choice((1, deltas[-1]))), made[HEADER_SIZE:])


def _compression(random: Random, batch: bytes) -> bytes:
    """Sets another compression in the attributes, or damages the compressed data."""
    header, body = read_header(batch), bytearray(batch[HEADER_SIZE:])
    if random.random() < 0.5 and body:
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)
        return seal(header, body)
    codec = random.choice((1, 2, 3, 4, 5, 6, 7))
    return seal(header._replace(attributes=header.attributes & ~7 | codec), body)


def _bomb(random: Random, batch: bytes) -> bytes:
    """Replaces the records by compressed data that decompresses to a much larger size."""
    codec = random.choice((1, 2, 3, 4))
    content = random.choice((b"\0", b"\x02", b"\x0c\0\0\0\x01\x01\0")) * (BOMB >> random.choice((0, 3, 6)))
    header = read_header(batch)._replace(attributes=codec)
    count = random.choice((header.records_count, len(content), len(content) // 7, 2**31 - 1))
    return seal(header._replace(records_count=count, last_offset_delta=count - 1), compress(codec, content))


def _marker(random: Random, batch: bytes) -> bytes:
    header = read_header(batch)
    attributes = header.attributes | random.choice((CONTROL, TRANSACTIONAL, CONTROL | TRANSACTIONAL, 8, 64, 128, -32768))
    return seal(header._replace(attributes=fit(attributes, 16)), batch[HEADER_SIZE:])


def _bytes(random: Random, batch: bytes) -> bytes:
    """Changes random bytes, but does not update the CRC."""
    made = bytearray(batch)
    for _ in range(random.randint(1, 3)):
        made[random.randrange(len(made))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    return bytes(made[: random.choice((len(made), random.randrange(len(made) + 1)))])


def _several(random: Random, batch: bytes) -> bytes:
    return batch * random.choice((2, 3, 200)) + batch[: random.choice((0, 5, 17, 60))]


def _old(random: Random, batch: bytes) -> bytes:
    """Changes the magic byte to another format."""
    made = bytearray(batch)
    made[16] = random.choice((0, 1, 3, 127, 255))
    return bytes(made)
