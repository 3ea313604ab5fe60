"""Zigzag varints, as records use them for lengths and deltas."""

from __future__ import annotations

from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer

_LONGEST = 63


def read_varint(buffer: Buffer, pos: int) -> tuple[int, int]:
    """Returns the signed number at `pos` and the position after it. Raises IndexError if the bytes end too early, and
    ProtocolError for a number of more than 64 bits.
    """
    byte = buffer[pos]
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    raw, shift = byte & 0x7F, 7
    while True:
        byte = buffer[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7
        if shift > _LONGEST:
            raise ProtocolError("a varint is longer than ten bytes")


def write_varint(out: bytearray, value: int) -> None:
    """Append `value` (64 bits, signed)."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
