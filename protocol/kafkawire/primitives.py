"""The few primitive forms of the wire that the struct module does not have."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable, Sequence

from kafkawire.errors import ProtocolError

ZERO_UUID = bytes(16)
"""The topic id that means "none"."""

Buffer = bytes | bytearray | memoryview


class Pieces:
    """Bytes in several buffers, in order. So nobody has to copy the bytes into one buffer. `len` gives the number of bytes."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self._size = sum([len(each) for each in buffers])

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)


def in_one_buffer(data: Buffer | Pieces) -> memoryview:
    """Returns a view of these bytes. Bytes in several buffers are copied."""
    return memoryview(bytes(data) if isinstance(data, Pieces) else data)


LIKE_JAVA = "kafkawire.java"
"""The error handler for decoding UTF-8 as Java does. All bytes of an encoded surrogate together become one U+FFFD. With the
handler "replace", each of these bytes becomes U+FFFD."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _rest(error: UnicodeError) -> tuple[str, int]:
    """Returns two values: the text from the first invalid byte to the end, and the position of the end. One call handles all
    invalid bytes, because a call for each byte would take too long."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _SURROGATE.sub(b"\xff", error.object[error.start :]).decode(errors="replace"), len(error.object)


codecs.register_error(LIKE_JAVA, _rest)


def read_uvarint(buffer: Buffer, pos: int) -> tuple[int, int]:
    """Returns the length, count or tag at `pos`, and the position after it. Raises ProtocolError, or IndexError if the bytes
    end too early.

    The number has at most five bytes, as in Kafka's ByteUtils. In Kafka, a number of more than 31 bits wraps around to a
    negative number, which is not a valid length or tag. This function refuses a number of more than 31 bits.
    """
    first = buffer[pos]
    if first < 0x80:
        return first, pos + 1
    second = buffer[pos + 1]  # each return below subtracts the sum of the continuation bits of all earlier bytes
    if second < 0x80:
        return first + (second << 7) - 0x80, pos + 2
    third = buffer[pos + 2]
    if third < 0x80:
        return first + (second << 7) + (third << 14) - 0x4080, pos + 3
    fourth = buffer[pos + 3]
    if fourth < 0x80:
        return first + (second << 7) + (third << 14) + (fourth << 21) - 0x204080, pos + 4
    fifth = buffer[pos + 4]
    if fifth > 7:
        raise ProtocolError("an unsigned varint has more than 31 bits")
    return first + (second << 7) + (third << 14) + (fourth << 21) + (fifth << 28) - 0x10204080, pos + 5


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` (not negative) as an unsigned varint."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def skip_tagged_fields(buffer: Buffer, pos: int, end: int, count: int) -> int:
    """Returns the position after `count` unknown tagged fields. Raises ProtocolError, or IndexError if the bytes end too
    early."""
    for _ in range(count):
        _, pos = read_uvarint(buffer, pos)
        size, pos = read_uvarint(buffer, pos)
        pos += size
        if pos > end:
            raise ProtocolError("a tagged field runs past the end")
    return pos


def new_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """Returns a random id. Like Kafka's Uuid.randomUuid, the id never begins with a hyphen when it is written as text. A
    command would take the hyphen for an option."""
    while format_uuid(made := random_bytes(16)).startswith("-"):
        pass
    return made


def format_uuid(raw: bytes) -> str:
    """Returns a topic id as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Returns the 16 bytes of a topic id that Kafka printed. Raises ValueError for any other text."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 16-byte id")
    return raw
