"""The four codecs of record batches, each with a bound on what it may unfold into.

gzip is in the standard library; snappy, lz4 and zstd come with `pip install 'wirebroker[codecs]'`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from kafkawire.errors import ProtocolError, WireError
from kafkawire.primitives import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_INT32 = struct.Struct(">i")
_FIRST_GUESS = 4
"""How many times its size a batch is first expected to unfold into."""


class CodecMissing(WireError):
    """The codec is not installed on this machine; the message says how to get it."""


class TooLarge(ProtocolError):
    """The compressed data unfolds into more than the limit."""


def decompress(codec: int, data: Buffer, limit: int) -> bytes | bytearray | memoryview:
    """The data unfolded, at most `limit` bytes. Raises ProtocolError for damaged data, TooLarge, CodecMissing."""
    if codec == GZIP:
        return _gunzip(data, limit)
    if codec == SNAPPY:
        return _unsnappy(data, limit)
    if codec not in (LZ4, ZSTD):
        raise ProtocolError(f"compression {codec} does not exist")
    return _unfold(_cramjam(NAMES[codec]).decompress_into, NAMES[codec], data, limit)


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The data folded. Raises CodecMissing."""
    if codec == GZIP:
        machine = zlib.compressobj(-1 if level is None else level, wbits=31)
        return machine.compress(data) + machine.flush()
    if codec == SNAPPY:
        raw = bytes(_cramjam("snappy").compress_raw(data))
        return _XERIAL + struct.pack(">iii", 1, 1, len(raw)) + raw
    folded = _cramjam(NAMES[codec]).compress
    return bytes(folded(data) if level is None else folded(data, level))


def _cramjam(name: str) -> Any:
    try:
        return getattr(import_module("cramjam"), name)
    except ImportError:
        raise CodecMissing(f"{name} needs a codec that is not installed: pip install 'wirebroker[codecs]'") from None


def _gunzip(data: Buffer, limit: int) -> bytes:
    machine = zlib.decompressobj(wbits=47)
    try:
        unfolded = machine.decompress(data, limit + 1)
    except zlib.error as damage:
        raise ProtocolError(f"gzip data cannot be read: {damage}") from damage
    if len(unfolded) > limit:
        raise TooLarge(f"gzip data unfolds into more than {limit} bytes")
    if not machine.eof:
        raise ProtocolError("gzip data ends too early")
    return unfolded


def _unsnappy(data: Buffer, limit: int) -> bytes | bytearray:
    """Raw snappy, or the blocks of the Java library, each with its size in front."""
    view = memoryview(data)
    if view[: len(_XERIAL)] != _XERIAL:
        return _snappy_block(view, limit)
    unfolded = bytearray()
    pos = _XERIAL_HEADER
    while pos < len(view):
        if len(view) - pos < _INT32.size:
            raise ProtocolError("snappy data ends too early")
        (size,) = _INT32.unpack_from(view, pos)
        pos += _INT32.size
        if not 0 <= size <= len(view) - pos:
            raise ProtocolError(f"a snappy block announces {size} bytes where {len(view) - pos} are left")
        unfolded += _snappy_block(view[pos : pos + size], limit - len(unfolded))
        pos += size
    return unfolded


def _snappy_block(block: memoryview, limit: int) -> bytes:
    snappy = _cramjam("snappy")
    try:
        announced = snappy.decompress_raw_len(block)
        if announced > limit:
            raise TooLarge(f"snappy data unfolds into more than {limit} bytes")
        return bytes(snappy.decompress_raw(block))
    except _errors() as damage:
        raise ProtocolError(f"snappy data cannot be read: {damage}") from damage


def _unfold(into: Callable[[Buffer, bytearray], int], name: str, data: Buffer, limit: int) -> memoryview:
    """Unfold into a buffer that grows until it suffices: the codec never writes beyond what it is given."""
    room = min(max(len(data) * _FIRST_GUESS, 1024), limit)
    while True:
        buffer = bytearray(room)
        try:
            return memoryview(buffer)[: into(data, buffer)]
        except _errors() as damage:
            if "whole buffer" not in str(damage):
                raise ProtocolError(f"{name} data cannot be read: {damage}") from damage
        if room >= limit:
            raise TooLarge(f"{name} data unfolds into more than {limit} bytes")
        room = min(room * 8, limit)


def _errors() -> tuple[type[Exception], ...]:
    cramjam = import_module("cramjam")
    return (cramjam.DecompressionError, ValueError, OverflowError)
