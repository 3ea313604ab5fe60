"""Makes the frames of requests, and damages them in ways that work for every API."""

from __future__ import annotations

import struct
from random import Random

from kafkawire.registry import request_header_version
from wirebroker.client.wire import CLIENT_ID

HEAD = struct.Struct(">hhih")
TAGGED = (
    b"\x01\x00\x01x",
    b"\x01\x63\x03abc",
    b"\x02\x00\x00\x01\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x01\x00\xff\xff\xff\xff\x0f",
)


def frame(key: int, version: int, correlation_id: int, body: bytes, client_id: bytes | None = CLIENT_ID.encode()) -> bytes:
    """Returns a request frame without its size. For an API that Kafka does not have, the header has no tagged fields."""
    size = -1 if client_id is None else len(client_id)
    head = HEAD.pack(key, version, correlation_id, size) + (client_id or b"")
    try:
        flexible = request_header_version(key, version) == 2
    except KeyError:
        flexible = False
    return head + (b"\0" if flexible else b"") + body


def damaged_frame(random: Random, raw: bytes) -> bytes:
    """Shortens or lengthens the frame, or changes bytes, the version or the client id."""
    way = random.randrange(8)
    if way == 0:
        return raw[: random.randrange(len(raw) + 1)]
    if way == 1:
        return raw + random.randbytes(random.choice((1, 4, 100)))
    if way == 2:
        return struct.pack(">hh", *_other_version(random, raw)) + raw[4:]
    if way == 3:
        length = random.choice((-1, -2, 0, 3, 32767, -32768))
        return raw[:8] + struct.pack(">h", length) + raw[10:]
    if way == 4:  # in most flexible requests, the last byte is the number of tagged fields
        return raw[:-1] + random.choice(TAGGED)
    made = bytearray(raw)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(8, len(made)) if len(made) > 8 else 0
        if way == 5:
            made[at : at + 4] = struct.pack(">i", random.choice((-1, -2, 2**31 - 1, 100_000_000, 65536, 1)))
        elif way == 6:
            made[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        else:
            made[at] ^= 1 << random.randrange(8)
    return bytes(made)


def _other_version(random: Random, raw: bytes) -> tuple[int, int]:
    if len(raw) < 4:
        return 0, 0
    key, version = struct.unpack_from(">hh", raw)
    if random.random() < 0.8:
        return key, random.choice((version + 1 if version < 32767 else 0, version - 1, 0, -1, 32767, -32768))
    return random.choice((4, 5, 7, 17, 36, 50, 93, 999, -1, 32767)), version
