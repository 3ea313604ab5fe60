"""Frames: the four-byte size and what follows it, request and response headers, and an incremental splitter."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.codec import Splice, decode, encode_into
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer, read_uvarint
from kafkawire.registry import request_header_version, response_class, response_header_version

SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhih")
_KEY_VERSION_CORRELATION = struct.Struct(">hhi")
DEFAULT_LIMIT = 104_857_600
"""Kafka's socket.request.max.bytes: the largest frame it reads."""


class FrameTooLarge(ProtocolError):
    """The peer announced a frame beyond the limit, or of a negative size. `announced` is in bytes."""

    def __init__(self, announced: int, limit: int) -> None:
        super().__init__(f"a frame of {announced} bytes was announced; the limit is {limit}")
        self.announced = announced


class RequestHeader(NamedTuple):
    """A request's header; `end` is the position of the body in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int


def read_key_version_correlation(frame: Buffer) -> tuple[int, int, int]:
    """The part of the header that every version of every request begins with. Raises ProtocolError."""
    if len(frame) < _KEY_VERSION_CORRELATION.size:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header")
    return _KEY_VERSION_CORRELATION.unpack_from(frame)  # type: ignore[return-value]


def read_request_header(frame: Buffer) -> RequestHeader:
    """The header of a request frame without its size. Raises ProtocolError; KeyError for an unknown API key."""
    key, version, _ = read_key_version_correlation(frame)
    form = request_header_version(key, version)
    try:
        key, version, correlation_id, length = _HEAD.unpack_from(frame)
        pos = _HEAD.size
        client_id = None
        if length >= 0:
            if pos + length > len(frame):
                raise ProtocolError("the client id runs past the end of the frame")
            client_id = str(frame[pos : pos + length], "utf-8")
            pos += length
        if form == 2:
            pos = skip_tags(frame, pos)
    except (struct.error, IndexError, UnicodeDecodeError) as damage:
        raise ProtocolError(f"the request header cannot be read: {damage}") from damage
    return RequestHeader(key, version, correlation_id, client_id, pos)


def skip_tags(buffer: Buffer, pos: int) -> int:
    """The position after a section of tagged fields of which none is known here."""
    count, pos = read_uvarint(buffer, pos)
    for _ in range(count):
        _, pos = read_uvarint(buffer, pos)
        size, pos = read_uvarint(buffer, pos)
        pos += size
        if pos > len(buffer):
            raise ProtocolError("a tagged field runs past the end of the frame")
    return pos


def encode_request(correlation_id: int, client_id: str | None, request: Message, version: int) -> bytes:
    """A whole request frame, with its size in front."""
    key = request.__schema__.key
    name = client_id.encode() if client_id is not None else None
    out = bytearray(4)
    out += _HEAD.pack(key, version, correlation_id, -1 if name is None else len(name))
    out += name or b""
    if request_header_version(key, version) == 2:
        out.append(0)
    encode_into(request, version, out, None)
    SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def encode_response(correlation_id: int, response: Message, version: int) -> list[Buffer]:
    """A whole response frame with its size in front, as buffers to be sent in order; large records are not copied."""
    out = bytearray(8)
    if response_header_version(response.__schema__.key, version):
        out.append(0)
    splices: list[Splice] = []
    encode_into(response, version, out, splices)
    size = len(out) - 4 + sum(len(records) for _, records in splices)
    _SIZE_CORRELATION.pack_into(out, 0, size, correlation_id)
    if not splices:
        return [out]
    view, parts, pos = memoryview(out), [], 0
    for at, records in splices:
        parts += [view[pos:at], records]
        pos = at
    if pos < len(out):
        parts.append(view[pos:])
    return parts


_SIZE_CORRELATION = struct.Struct(">ii")


def read_response_header(frame: Buffer, key: int, version: int) -> tuple[int, int]:
    """The correlation id and the position of the body in a response frame without its size. Raises ProtocolError."""
    try:
        (correlation_id,) = SIZE.unpack_from(frame)
        return correlation_id, skip_tags(frame, 4) if response_header_version(key, version) else 4
    except (struct.error, IndexError) as damage:
        raise ProtocolError(f"the response header cannot be read: {damage}") from damage


def decode_response(frame: Buffer, key: int, version: int) -> tuple[int, Message]:
    """The correlation id and body of a response frame without its size. Raises ProtocolError."""
    correlation_id, pos = read_response_header(frame, key, version)
    message, _ = decode(response_class(key), frame, version, pos)
    return correlation_id, message


class FrameSplitter:
    """Cuts a stream of bytes into frames without their sizes; holds at most what has really arrived."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._held = bytearray()

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """The frames that `data` completes. Raises FrameTooLarge as soon as a size is announced beyond the limit."""
        self._held += data
        pos = 0
        try:
            while len(self._held) - pos >= 4:
                (size,) = SIZE.unpack_from(self._held, pos)
                if not 0 <= size <= self.limit:
                    raise FrameTooLarge(size, self.limit)
                if len(self._held) - pos - 4 < size:
                    break
                frame = bytes(memoryview(self._held)[pos + 4 : pos + 4 + size])
                pos += 4 + size
                yield frame
        finally:
            del self._held[:pos]
