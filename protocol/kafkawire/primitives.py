"""The few primitive forms of the wire that the struct module does not know."""

from __future__ import annotations

import base64

from kafkawire.errors import ProtocolError

ZERO_UUID = bytes(16)
"""The topic id that stands for "none"."""

Buffer = bytes | bytearray | memoryview
_MAX_UVARINT_SHIFT = 28


def read_uvarint(buffer: Buffer, pos: int) -> tuple[int, int]:
    """The unsigned varint at `pos` and the position after it; at most five bytes, as in Kafka's ByteUtils."""
    value = shift = 0
    while True:
        byte = buffer[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > _MAX_UVARINT_SHIFT:
            raise ProtocolError("unsigned varint is longer than five bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` (0 … 2³²−1) as an unsigned varint."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def format_uuid(raw: bytes) -> str:
    """A topic id as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a topic id printed by Kafka; ValueError if it is none."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 16-byte id")
    return raw
