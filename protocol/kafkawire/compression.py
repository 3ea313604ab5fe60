"""The four codecs of record batches, each with a limit on the decompressed size.

The standard library has gzip and, from Python 3.14 on, zstd. The extra `codecs` installs snappy, lz4 and zstd. The formats are
Kafka's, for reading and for writing: successive gzip members and zstd frames, snappy raw or in the blocks of the Java library,
and one lz4 frame with independent blocks (Kafka's Lz4BlockInputStream refuses linked blocks).
"""

from __future__ import annotations

import mmap
import struct
import zlib
from importlib import import_module
from typing import Any

from kafkawire.errors import ProtocolError, WireError
from kafkawire.extras import how_to_install
from kafkawire.primitives import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_GZIP_FORMAT = 31
"""zlib's `wbits` for data with a gzip header and the largest window."""
_GZIP_MEMBER = b"\x1f\x8b\x08"
_XERIAL = b"\x82SNAPPY\x00"
"""The first bytes of the stream format of snappy's Java library."""
_XERIAL_HEADER = _XERIAL + struct.pack(">ii", 1, 1)
_INT32 = struct.Struct(">i")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_LEAST_HEADER = 7
_LZ4_VERSION, _LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM = (
    0x40,
    0x20,
    0x10,
    0x08,
    0x04,
)
_LZ4_STORED = 0x8000_0000
"""In the size field of an lz4 block, this bit marks the block as uncompressed."""
_LZ4_BEST_RATIO = 255
_UINT32_LE = struct.Struct("<I")
_FIRST_GUESS, _NEXT_GUESS = 4, 8
"""The expected compression ratio of zstd data. Each time the buffer is too small, it grows by the second factor."""

_SMALL_ROOM = 1 << 20
_KEPT_ROOM = 1 << 22
"""A buffer of at most this many bytes is kept for its next use. A larger buffer is freed."""


class CodecMissing(WireError):
    """Raised if the codec is not installed on this machine. The message says how to get it."""


class TooLarge(ProtocolError):
    """Raised if the data decompresses to more bytes than the limit."""


class Room:
    """A buffer into which one batch after another is decompressed, because it takes much longer to get new memory than to use
    the same memory again."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray())

    def at_least(self, size: int, used: int = 0) -> memoryview:
        """Returns the buffer with at least `size` bytes. The first `used` bytes keep their content."""
        if size > len(self.buffer):
            grown = memoryview(_zeroes(max(size, 2 * used)))
            grown[:used] = self.buffer[:used]
            self.buffer = grown
        return self.buffer

    def tidy(self) -> None:
        """Free a large buffer. Call this when the decompressed data is no longer needed."""
        if len(self.buffer) > _KEPT_ROOM:
            self.buffer = memoryview(bytearray())


def decompress(codec: int, data: Buffer, limit: int, room: Room | None = None, *, any_checksum: bool = False) -> Buffer:
    """Returns the decompressed data, at most `limit` bytes. Raises TooLarge, CodecMissing, and ProtocolError for damaged data.

    With a `room` the result may be a part of the room's buffer, which the next use of the room overwrites. With `any_checksum`
    the checksum of an lz4 header is not compared, because message sets of magic 0 have a wrong checksum.
    """
    if codec == GZIP:
        return _gunzip(data, limit)
    if codec == SNAPPY:
        return _unsnappy(memoryview(data), limit, room or Room())
    if codec == LZ4:
        return _unlz4(memoryview(data), limit, room or Room(), any_checksum)
    if codec == ZSTD:
        return _unzstd(data, limit, room or Room())
    raise ProtocolError(f"compression {codec} does not exist")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Returns the data compressed. Raises CodecMissing."""
    if codec == GZIP:
        machine = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_FORMAT)
        return machine.compress(data) + machine.flush()
    if codec == SNAPPY:
        raw = bytes(_cramjam("snappy").compress_raw(data))
        return b"".join((_XERIAL_HEADER, _INT32.pack(len(raw)), raw))
    if codec == LZ4:
        return _lz4(data, level)
    if codec == ZSTD:
        folded = _stdlib_zstd().compress if _cramjam_is_missing() else _cramjam("zstd").compress
        return bytes(folded(data) if level is None else folded(data, level))
    raise ValueError(f"compression {codec} does not exist")


def _cramjam(name: str) -> Any:
    try:
        return getattr(import_module("cramjam"), name)
    except ImportError:
        raise CodecMissing(f"{name} needs a codec that is not installed; {how_to_install('codecs')}") from None


def _cramjam_is_missing() -> bool:
    try:
        import_module("cramjam")
    except ImportError:
        return True
    return False


def _stdlib_zstd() -> Any:
    try:
        return import_module("compression.zstd")
    except ImportError:
        return _cramjam("zstd")  # the error of the import names the missing package


def _gunzip(data: Buffer, limit: int) -> bytes:
    """Decompresses all members of gzip data. Other bytes after the last member are ignored (Java's GZIPInputStream)."""
    parts: list[bytes] = []
    left = limit
    while True:
        machine = zlib.decompressobj(wbits=_GZIP_FORMAT)
        try:
            unfolded = machine.decompress(data, left + 1)
        except zlib.error as damage:
            raise ProtocolError(f"gzip data cannot be read: {damage}") from damage
        left -= len(unfolded)
        if left < 0:
            raise TooLarge(f"gzip data decompresses to more than {limit} bytes")
        if not machine.eof:
            raise ProtocolError("gzip data ends too early")
        parts.append(unfolded)
        data = machine.unused_data
        if not data.startswith(_GZIP_MEMBER):
            return b"".join(parts) if len(parts) > 1 else unfolded


def _unsnappy(data: memoryview, limit: int, room: Room) -> memoryview:
    """Decompresses raw snappy, or one or more successive streams of the Java library. Such a stream consists of blocks, each
    preceded by its size."""
    if data[: len(_XERIAL)] != _XERIAL:
        unfolded = _snappy_block(data, limit, room, 0)
        return room.buffer[:unfolded]
    pos = unfolded = 0
    while pos < len(data):
        if data[pos : pos + len(_XERIAL)] == _XERIAL:
            pos += len(_XERIAL_HEADER)
            continue
        size = _INT32.unpack_from(data, pos)[0] if len(data) - pos >= _INT32.size else -1
        pos += _INT32.size
        if not 0 <= size <= len(data) - pos:
            raise ProtocolError("a snappy block runs past the end of its data")
        unfolded = _snappy_block(data[pos : pos + size], limit, room, unfolded)
        pos += size
    return room.buffer[:unfolded]


def _snappy_block(block: memoryview, limit: int, room: Room, at: int) -> int:
    """Decompress a block into the room's buffer from `at` on. Returns the end of the decompressed data."""
    snappy = _cramjam("snappy")
    try:
        end = at + int(snappy.decompress_raw_len(block))  # the codec enforces the announced size
        if end > limit:
            raise TooLarge("snappy data decompresses to more than the limit")
        return at + int(snappy.decompress_raw_into(block, room.at_least(end, at)[at:end]))
    except _errors() as damage:
        raise ProtocolError(f"snappy data cannot be read: {damage}") from damage


def _unlz4(data: memoryview, limit: int, room: Room, any_checksum: bool) -> memoryview:
    """Decompresses one lz4 frame. Bytes after the frame are ignored. The checksums of the frame's content are not compared,
    because the batch has a CRC.
    """
    pos, largest, trailer = _lz4_header(data, any_checksum)
    closing = 4 if data[4] & _LZ4_CONTENT_CHECKSUM else 0
    block_into = _cramjam("lz4").decompress_block_into
    unfolded = 0
    while True:
        if len(data) - pos < _UINT32_LE.size:
            raise ProtocolError("lz4 data ends too early")
        (announced,) = _UINT32_LE.unpack_from(data, pos)
        size = announced & ~_LZ4_STORED
        pos += _UINT32_LE.size
        if size == 0 and len(data) - pos >= closing:
            return room.buffer[:unfolded]
        if not 0 < size <= largest or size + trailer > len(data) - pos:
            raise ProtocolError(f"an lz4 block announces {size} bytes, but only {min(largest, len(data) - pos)} are possible")
        block = data[pos : pos + size]
        if announced & _LZ4_STORED:
            room.at_least(unfolded + size, unfolded)[unfolded : unfolded + size] = block
            unfolded += size
        else:
            most = min(largest, size * _LZ4_BEST_RATIO)
            unfolded += _lz4_block(block_into, block, room.at_least(unfolded + most, unfolded)[unfolded : unfolded + most])
        if unfolded > limit:
            raise TooLarge(f"lz4 data decompresses to more than {limit} bytes")
        pos += size + trailer


def _lz4_header(data: memoryview, any_checksum: bool) -> tuple[int, int, int]:
    """Returns three numbers: the position of the first block, the largest size of a block, and the size of the checksum after
    each block."""
    if len(data) < _LZ4_LEAST_HEADER or data[:4] != _LZ4_MAGIC:
        raise ProtocolError("the lz4 data has no frame")
    flags, block_size = data[4], data[5] >> 4
    if flags & 0xC0 != _LZ4_VERSION:
        raise ProtocolError(f"the lz4 frame has version {flags >> 6}, but only version 1 exists")
    if not flags & _LZ4_INDEPENDENT:
        raise ProtocolError(
            "the blocks of the lz4 frame are linked, and Kafka's brokers and Java clients do not read linked blocks"
        )
    if flags & 0x03:
        raise ProtocolError("the lz4 frame has a dictionary or a reserved flag, and no broker of Kafka reads such a frame")
    if not 4 <= block_size <= 7 or data[5] & 0x0F:
        raise ProtocolError("the lz4 frame announces a block size that does not exist")
    pos = 14 if flags & _LZ4_CONTENT_SIZE else 6
    if len(data) <= pos:
        raise ProtocolError("lz4 data ends too early")
    if not any_checksum and data[pos] != _xxh32(data[4:pos]) >> 8 & 0xFF:
        raise ProtocolError("the header of an lz4 frame does not match its checksum")
    return pos + 1, 1 << (2 * block_size + 8), 4 if flags & _LZ4_BLOCK_CHECKSUM else 0


def _lz4_block(block_into: Any, block: memoryview, into: memoryview) -> int:
    try:
        return int(block_into(block, into, output_len=len(into)))
    except _errors() as damage:
        raise ProtocolError(f"lz4 data cannot be read: {damage}") from damage


def _lz4(data: Buffer, level: int | None) -> bytes:
    machine = _cramjam("lz4").Compressor(level=level, block_linked=False, content_checksum=False)
    machine.compress(bytes(data))
    return bytes(machine.finish())


def with_old_checksum(frame: bytes) -> bytes:
    """Returns an lz4 frame in the form that clients of magic 0 expect: the checksum in its header wrongly covers the magic
    number, too."""
    at = _lz4_header(memoryview(frame), False)[0] - 1
    return frame[:at] + bytes((_xxh32(memoryview(frame)[:at]) >> 8 & 0xFF,)) + frame[at + 1 :]


def _xxh32(data: memoryview) -> int:
    """Returns the XXH32 checksum, with seed 0, of data of less than 16 bytes, such as an lz4 header."""
    mask, pos = 0xFFFF_FFFF, 0
    digest = 374761393 + len(data)
    while len(data) - pos >= _UINT32_LE.size:
        digest = digest + _UINT32_LE.unpack_from(data, pos)[0] * 3266489917 & mask
        digest = (digest << 17 | digest >> 15) * 668265263 & mask
        pos += _UINT32_LE.size
    for byte in data[pos:]:
        digest = digest + byte * 374761393 & mask
        digest = (digest << 11 | digest >> 21) * 2654435761 & mask
    digest = (digest ^ digest >> 15) * 2246822519 & mask
    digest = (digest ^ digest >> 13) * 3266489917 & mask
    return digest ^ digest >> 16


def _unzstd(data: Buffer, limit: int, room: Room) -> Buffer:
    """Decompresses any number of zstd frames. Empty data has no frame, and is accepted as in zstd-jni."""
    if not data:
        return b""
    if _cramjam_is_missing():
        return _unzstd_frames(_stdlib_zstd(), data, limit)
    into = _cramjam("zstd").decompress_into
    size = min(max(len(data) * _FIRST_GUESS, 1024, len(room.buffer)), limit)
    while True:
        buffer = room.at_least(size)[:size]  # the codec never writes outside the buffer
        try:
            return buffer[: into(data, buffer)]
        except _errors() as damage:
            if "whole buffer" not in str(damage):
                raise ProtocolError(f"zstd data cannot be read: {damage}") from damage
        if size >= limit:
            raise TooLarge(f"zstd data decompresses to more than {limit} bytes")
        size = min(size * _NEXT_GUESS, limit)


def _zeroes(size: int) -> bytearray | mmap.mmap:
    """Returns a buffer of zeroes. A large buffer is a memory mapping from the system, because writing so many zeroes would
    block all other threads."""
    if size <= _SMALL_ROOM:
        return bytearray(size)
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)  # Windows


def _unzstd_frames(zstd: Any, data: Buffer, limit: int) -> bytearray:
    unfolded = bytearray()
    while data:
        machine = zstd.ZstdDecompressor()
        try:
            unfolded += machine.decompress(data, max_length=limit + 1 - len(unfolded))
        except zstd.ZstdError as damage:
            raise ProtocolError(f"zstd data cannot be read: {damage}") from damage
        if len(unfolded) > limit:
            raise TooLarge(f"zstd data decompresses to more than {limit} bytes")
        if not machine.eof:
            raise ProtocolError("zstd data ends too early")
        data = machine.unused_data
    return unfolded


def _errors() -> tuple[type[Exception], ...]:
    return (import_module("cramjam").DecompressionError, ValueError, OverflowError)
