"""Frames: the four-byte size of a frame, and the headers of requests and responses."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kafkawire.codec import MAX_ELEMENTS, Splice, decode, encode_into
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ErrorCode, ProtocolError
from kafkawire.primitives import LIKE_JAVA, Buffer, Pieces, read_uvarint, skip_tagged_fields
from kafkawire.registry import API_VERSIONS, request_header_version, response_class, response_header_version

SIZE = struct.Struct(">i")
SIZE_BYTES = SIZE.size
"""The length of a frame's size prefix."""
_HEAD = struct.Struct(">hhih")
KEY_VERSION_CORRELATION = struct.Struct(">hhi")
_ENDS_EARLY = "the request header cannot be read: it ends too early"
_SIZE_CORRELATION = struct.Struct(">ii")
_new: Any = tuple.__new__


def frame_end(data: Buffer, pos: int = 0) -> int:
    """Returns the position after the frame whose size is at `pos`; the frame may be incomplete."""
    size: int = SIZE.unpack_from(data, pos)[0]
    return pos + SIZE_BYTES + size


class FrameReader:
    """Cuts the bytes of one direction of a connection into frames. The bytes may arrive in any pieces.

    The class can be used in two ways. `feed` and `next` return whole frames of `least` to `most` bytes. `taken`, `keep` and
    `passed` are for callers that read only the beginning of a frame, and forward the rest as it arrives.
    """

    __slots__ = ("_least", "_most", "needed", "passing", "tail")

    def __init__(self, most: int = 2**31 - 1, least: int = 0) -> None:
        self._least, self._most = least, most
        self.tail = bytearray()
        """The bytes that have arrived, but were neither returned nor forwarded yet."""
        self.needed = 0
        """The number of bytes that `tail` must have before the caller can decide about the frame."""
        self.passing = 0
        """The number of bytes of the current frame that have not arrived yet; they are forwarded as they arrive."""

    def feed(self, data: Buffer) -> None:
        """Add received bytes."""
        self.tail += data

    def next(self) -> bytes | None:
        """Returns the next whole frame with its size, or None. Raises ProtocolError for an invalid size."""
        if len(self.tail) < SIZE_BYTES:
            return None
        end = frame_end(self.tail)
        if not self._least <= end - SIZE_BYTES <= self._most:
            raise ProtocolError(f"a frame announces {end - SIZE_BYTES} bytes")
        if len(self.tail) < end:
            return None
        frame = bytes(memoryview(self.tail)[:end])
        del self.tail[:end]
        return frame

    @property
    def lacking(self) -> int:
        """The number of bytes that must have arrived before the kept bytes can be forwarded; 0 if no bytes wait."""
        return self.needed if 0 < len(self.tail) < self.needed else 0

    def taken(self, data: memoryview) -> memoryview | None:
        """Returns the kept bytes with the new data after them, or None if both together are still fewer than `needed` bytes."""
        if not self.tail:
            return data
        self.tail += data
        if len(self.tail) < self.needed:
            return None
        whole, self.tail = self.tail, bytearray()
        return memoryview(whole)

    def keep(self, data: Buffer, needed: int = 0) -> None:
        """Keep these bytes. The kept bytes are not forwarded before `needed` bytes have arrived."""
        self.tail, self.needed = bytearray(data), needed

    def passed(self, count: int) -> int:
        """Returns how many of the next `count` bytes belong to the frame that is being forwarded."""
        passed = min(self.passing, count)
        self.passing -= passed
        return passed


class RequestHeader(NamedTuple):
    """A request's header; `end` is the position of the body in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int


def read_key_version_correlation(frame: Buffer) -> tuple[int, int, int]:
    """Returns the API key, the version and the correlation id. In every version, the header of a request begins with these
    three fields. Raises ProtocolError."""
    if len(frame) < KEY_VERSION_CORRELATION.size:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header")
    return KEY_VERSION_CORRELATION.unpack_from(frame)


def read_request_header(frame: Buffer) -> RequestHeader:
    """Returns the header of a request frame without its size. Raises ProtocolError, or KeyError for an unknown API key."""
    try:
        key, version, correlation_id, length = _HEAD.unpack_from(frame)
    except struct.error:
        key, version, _ = read_key_version_correlation(frame)
        request_header_version(key, version)
        raise ProtocolError(_ENDS_EARLY) from None
    pos = _HEAD.size
    client_id = None
    if length >= 0:
        if pos + length > len(frame):
            raise ProtocolError("the client id runs past the end of the frame")
        client_id = str(frame[pos : pos + length], "utf-8", LIKE_JAVA)
        pos += length
    if request_header_version(key, version) == 2:
        try:
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos)
        except IndexError as damage:
            raise ProtocolError(_ENDS_EARLY) from damage
    return _new(RequestHeader, (key, version, correlation_id, client_id, pos))  # type: ignore[no-any-return]


def skip_tags(buffer: Buffer, pos: int) -> int:
    """Returns the position after a section of unknown tagged fields. Raises ProtocolError, or IndexError if the bytes end too
    early."""
    count, pos = read_uvarint(buffer, pos)
    if count > MAX_ELEMENTS:
        raise ProtocolError(f"{count} tagged fields are too many, at most {MAX_ELEMENTS} are read")
    return skip_tagged_fields(buffer, pos, len(buffer), count)


def encode_request(correlation_id: int, client_id: str | None, request: Message, version: int) -> bytes:
    """Returns a whole request frame, with its size in front. Raises EncodeError."""
    key = request.__schema__.key
    out = bytearray(4)
    try:
        name = client_id.encode() if client_id is not None else None
        out += _HEAD.pack(key, version, correlation_id, -1 if name is None else len(name))
    except (struct.error, AttributeError, UnicodeEncodeError) as wrong:
        raise EncodeError(f"the request header cannot be written: {wrong}") from wrong
    out += name or b""
    if request_header_version(key, version) == 2:
        out.append(0)
    encode_into(request, version, out, None)
    SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def encode_response(correlation_id: int, response: Message, version: int) -> list[Buffer]:
    """Returns a whole response frame with its size in front, as buffers to be sent in order; large records are not copied.

    Raises EncodeError.
    """
    out = bytearray(8)
    if response_header_version(response.__schema__.key, version):
        out.append(0)
    splices: list[Splice] = []
    encode_into(response, version, out, splices)
    size = len(out) - 4
    for _, records in splices:
        size += len(records)
    try:
        _SIZE_CORRELATION.pack_into(out, 0, size, correlation_id)
    except struct.error as wrong:
        raise EncodeError(f"the response header cannot be written: {wrong}") from wrong
    if not splices:
        return [out]
    view, parts, pos = memoryview(out), list[Buffer](), 0
    for at, records in splices:
        parts.append(view[pos:at])
        parts += records.buffers if isinstance(records, Pieces) else (records,)
        pos = at
    if pos < len(out):
        parts.append(view[pos:])
    return parts


def read_response_header(frame: Buffer, key: int, version: int) -> tuple[int, int]:
    """Returns two values: the correlation id in a response frame, and the position of the response's body. `frame` has no size
    field.

    Raises ProtocolError, or KeyError for an unknown API key.
    """
    form = response_header_version(key, version)
    try:
        (correlation_id,) = SIZE.unpack_from(frame)
        return correlation_id, skip_tags(frame, 4) if form else 4
    except (struct.error, IndexError) as damage:
        raise ProtocolError("the response header cannot be read: it ends too early") from damage


def written_version(frame: Buffer, key: int, version: int) -> int:
    """Returns the version of the response to a request of this version. `frame` is the response without its
    size.

    A broker that does not know the version of an ApiVersions request responds in version 0 (KIP-511).
    """
    refused = key == API_VERSIONS and len(frame) >= 6 and int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
    return 0 if refused else version


def decode_response(frame: Buffer, key: int, version: int) -> tuple[int, Message]:
    """Returns the correlation id and body of a response frame without its size.

    Raises ProtocolError, also if bytes are left over, and KeyError for an unknown API key.
    """
    correlation_id, pos = read_response_header(frame, key, version)
    message, pos = decode(response_class(key), frame, version, pos)
    if pos != len(frame):
        raise ProtocolError(f"{type(message).__name__} v{version} is followed by {len(frame) - pos} more bytes")
    return correlation_id, message
