"""Reads messages from bytes, and writes them to bytes.

The version fixes a message's wire form. A reader and a writer are compiled for each class and version on first use (`reading`,
`writing`); adjacent fields of fixed size share one `struct` call. `decode` raises only `ProtocolError`, for bytes that Kafka
refuses; `encode` raises only `EncodeError`, for values that the version cannot carry.

Records are not copied: a `records` field is a `memoryview` of the buffer from which the message is read.

The memory for reading a message is limited. A count is compared with the remaining bytes before any object is made. All arrays
of a message together, with the tagged fields, may have MAX_ELEMENTS elements. In an array of numbers or ids, every eight
numbers count as one element, so an array of up to seven numbers does not count. The objects of a message take at most
MOST_OBJECTS bytes of memory for each byte read, and never more than about half a gigabyte. This does not include the contents
of strings and bytes.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from kafkawire.blame import blame
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.primitives import Buffer
from kafkawire.reading import Reader, reader
from kafkawire.writing import Splice, Writer, writer

__all__ = [
    "MAX_ELEMENTS", "MOST_OBJECTS", "Splice", "decode", "encode", "encode_into", "message_reader", "message_writer",
]  # fmt: skip

M = TypeVar("M", bound=Message)

MAX_ELEMENTS = 1 << 19
"""All arrays of a message together may have at most this many elements; the metadata of 100,000 partitions has at most
200,000."""
MOST_OBJECTS = 64
"""The objects of a message take at most this many bytes of memory for each byte of the message. The largest measured value is
54, for a message with many small elements.
"""

_WRONG = (struct.error, AttributeError, TypeError, ValueError, OverflowError)
_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}


def decode(cls: type[M], buffer: Buffer, version: int, pos: int = 0, most_elements: int | None = None) -> tuple[M, int]:
    """Returns the message at `pos` and the position after it. Bytes after the message are ignored, as in Kafka.

    Raises ProtocolError. Raises the subclass TooManyElements if the arrays announce more elements than
    `most_elements` (by default MAX_ELEMENTS).
    """
    view = buffer if buffer.__class__ is memoryview else memoryview(buffer)
    try:
        read = _readers.get((cls, version)) or message_reader(cls, version)
        return read(view, pos, len(view), [MAX_ELEMENTS if most_elements is None else most_elements])
    except ProtocolError as damage:
        raise type(damage)(f"{cls.__name__} v{version} cannot be read: {damage}") from None
    except (struct.error, IndexError) as damage:
        raise ProtocolError(f"{cls.__name__} v{version} cannot be read: it ends too early") from damage


def encode(message: Message, version: int) -> bytes:
    """Returns the message's bytes. Fields that do not exist in this version are left out. Raises EncodeError."""
    out = bytearray()
    encode_into(message, version, out, None)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray, splices: list[Splice] | None) -> None:
    """Append the message to `out`. If `splices` is a list, large record data is not copied. Instead, its position and its
    buffer are added to the list. Raises EncodeError."""
    cls = type(message)
    try:
        write = _writers.get((cls, version)) or message_writer(cls, version)
        write(message, out, splices)
    except _WRONG as wrong:
        what = blame(message, version) or wrong
        raise EncodeError(f"{cls.__name__} v{version} cannot be written: {what}") from wrong


def message_reader(cls: type[Message], version: int) -> Reader:
    """Returns the compiled reader of a message in one version. Raises ProtocolError if the message does not have this
    version."""
    oldest, newest = cls.__schema__.versions
    if not oldest <= version <= newest:
        raise ProtocolError(f"it has versions {oldest} to {newest}")
    made = _readers[cls, version] = reader(cls, version, version >= cls.__schema__.flexible)
    return made


def message_writer(cls: type[Message], version: int) -> Writer:
    """Returns the compiled writer of a message in one version. Raises ValueError if the message does not have this version."""
    oldest, newest = cls.__schema__.versions
    if not oldest <= version <= newest:
        raise ValueError(f"it has versions {oldest} to {newest}")
    made = _writers[cls, version] = writer(cls, version, version >= cls.__schema__.flexible)
    return made
