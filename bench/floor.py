"""A minimal server in Python, which does only what the checks of a Produce require. The benchmarks compare wirebroker with it.

The floor supports one topic-partition per request, idempotent producers, and one consumer's Fetch without a session. It has no
transactions, no retries, no faults, no trace and no second broker. The floor reads the 61 header bytes of a batch, computes the
CRC-32C, and compares the sequence with the producer's next sequence, which is in a dict. The floor copies a batch once to store
it, and stores a large batch without a copy. With `--walk` it also walks over the lengths of the records. If a request has the
same form as the previous request on its connection, the floor does not parse it again. The floor uses every trick that does not
weaken the checks, so a broker that is nearly as fast can hardly become faster.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import struct
from array import array
from bisect import bisect_right
from contextlib import suppress
from typing import Any

from crc32c import crc32c

PRODUCE, FETCH, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 3, 19, 22
SHARED = 256 * 1024
"""All connections receive into one buffer of this size. A frame of more than half of this size gets its own buffer."""
PEEK = 4096
"""After a large frame, at most this many bytes of the next frame are received into the shared buffer, because the next frame is
probably large, too.
"""
CHUNK = 1024 * 1024
TOPIC_ID = b"\x11" * 16
NODE_ID = 0
NONE, CORRUPT_MESSAGE, OUT_OF_ORDER, INVALID_RECORD = 0, 2, 45, 87

SIZE = struct.Struct(">i")
HEAD = struct.Struct(">ihhih")
BATCH = struct.Struct(">qiibIhiqqqhii")
START = struct.Struct(">qii")

shared = bytearray(SHARED)
view = memoryview(shared)


class Arena:
    """Hands out pieces of large memory mappings."""

    size = 16 * 1024 * 1024
    current = view[:0]

    @classmethod
    def take(cls, size: int) -> memoryview:
        """Returns a writable piece that is given to no other caller."""
        if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
            return memoryview(bytearray(size))
        if size > len(cls.current):
            cls.current = memoryview(mmap.mmap(-1, max(size, cls.size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        piece, cls.current = cls.current[:size], cls.current[size:]
        return piece


class Log:
    """The log of one partition: chunks of whole batches, and the place of each batch (chunk << 32 | position)."""

    __slots__ = ("at", "bases", "capacity", "chunk", "chunks", "end", "filled", "places", "producers")

    def __init__(self) -> None:
        self.chunks: list[memoryview] = []
        self.filled: list[int] = []
        self.chunk = memoryview(b"")
        self.at = self.capacity = 0
        self.end = 0
        self.bases = array("q")
        self.places = array("q")
        self.producers: dict[int, tuple[int, int]] = {}

    def room(self, size: int) -> None:
        """Begin a chunk with room for a batch of this size."""
        self.keep(Arena.take(max(size, CHUNK)))
        self.at = 0

    def keep(self, chunk: memoryview) -> None:
        """Take over a buffer as the newest chunk. Free space in the previous chunk stays unused."""
        if self.chunks:
            self.filled[-1] = self.at
        self.chunks.append(chunk)
        self.filled.append(0)
        self.chunk, self.at, self.capacity = chunk, len(chunk), len(chunk)

    def read(self, offset: int, most: int) -> memoryview:
        """Returns about `most` bytes of whole batches, from `offset` to at most the end of the chunk. Returns at least one
        batch, unless `offset` is the end of the log.
        """
        index = bisect_right(self.bases, offset) - 1
        if index < 0 or offset >= self.end:
            return memoryview(b"")
        place = self.places[index]
        number, start = place >> 32, place & 0xFFFFFFFF
        stop = self.at if number == len(self.chunks) - 1 else self.filled[number]
        if stop - start > most:
            last = bisect_right(self.places, place + most) - 1
            stop = self.places[last] & 0xFFFFFFFF if last > index else start + self._size(start, number)
        return self.chunks[number][start:stop]

    def _size(self, start: int, number: int) -> int:
        return int(SIZE.unpack_from(self.chunks[number], start + 8)[0]) + 12


logs: dict[tuple[bytes, int], Log] = {}


class Shape:
    """The common form of a connection's Produce requests, and of their responses."""

    __slots__ = ("batch_at", "flexible", "log", "middle", "pack", "prefix", "response_size", "tail")

    def __init__(self, frame: memoryview, pos: int, version: int, records_at: int, name: bytes, index: int) -> None:
        self.flexible = version >= 9
        self.prefix = bytes(frame[pos + 12 : records_at])
        self.batch_at = records_at - pos
        self.log = logs[(TOPIC_ID if version >= 13 else name), index]
        if self.flexible:
            named = name if version >= 13 else bytes([len(name) + 1]) + name
            self.middle = b"\0\2" + named + b"\2" + SIZE.pack(index)
            self.tail = b"\1\0\0\0\0\0\0\0\0"  # no record errors, no error message, no tags, throttle time 0, no tags
        else:
            self.middle = struct.pack(f">ih{len(name)}sii", 1, len(name), name, 1, index)
            self.tail = (b"\0\0\0\0\xff\xff" if version == 8 else b"") + b"\0\0\0\0"
        response = struct.Struct(f">ii{len(self.middle)}shqqq{len(self.tail)}s")
        self.pack = response.pack
        self.response_size = response.size - 4


def shape_of(frame: memoryview, pos: int, version: int, at: int) -> Shape:
    """Parse a Produce request up to its records. The request has no transactional id, one topic with a short name, and one
    partition.
    """
    if version >= 9:
        at += 1 + 1 + 6 + 1  # header tags, no transactional id, acks and timeout, one topic
        if version >= 13:
            name = bytes(frame[at : at + 16])
            at += 16
        else:
            size = frame[at]
            name = bytes(frame[at + 1 : at + size])
            at += size
        return Shape(frame, pos, version, at + 5, name, SIZE.unpack_from(frame, at + 1)[0])
    at += 2 + 6 + 4
    size = int.from_bytes(frame[at : at + 2], "big")
    name = bytes(frame[at + 2 : at + 2 + size])
    at += 2 + size
    return Shape(frame, pos, version, at + 8, name, SIZE.unpack_from(frame, at + 4)[0])


def walk(frame: memoryview, pos: int, end: int, count: int) -> bool:
    """Tells from the lengths of the records alone whether `count` records fill the bytes exactly."""
    while pos < end:
        size = frame[pos]
        pos += 1
        if size > 127:
            size &= 127
            shift = 7
            while (byte := frame[pos]) > 127:
                size |= (byte & 127) << shift
                shift += 7
                pos += 1
            size |= byte << shift
            pos += 1
        pos += size >> 1
        count -= 1
    return pos == end and count == 0


class Floor(asyncio.BufferedProtocol):
    """One connection."""

    walks = False
    producer_ids = 0
    port = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.write = transport.write
        self.fileno = transport.get_extra_info("socket").fileno()
        self.left = b""
        self.own = view[:0]
        self.own_filled = 0
        self.common = view
        self.shape: Shape | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.own:
            return self.own[self.own_filled :]
        if self.left:
            view[: len(self.left)] = self.left
            return view[len(self.left) :]
        return self.common

    def buffer_updated(self, nbytes: int) -> None:
        responses: list[bytes] = []
        if self.own:
            self.own_filled += nbytes
            if self.own_filled < len(self.own):
                return
            own, self.own = self.own, view[:0]
            self.common = view[:PEEK]
            self.handle(own, own, 0, len(own), responses, True)
        else:
            pos, end = 0, len(self.left) + nbytes
            while end - pos >= 4:
                stop = pos + 4 + SIZE.unpack_from(shared, pos)[0]
                if stop > end:
                    break
                self.handle(view, shared, pos, stop, responses, False)
                pos = stop
            self.common = view
            if pos == end:
                self.left = b""
            elif end - pos >= 4 and stop - pos > SHARED // 2:
                self.own = Arena.take(stop - pos)
                self.own_filled = end - pos
                self.own[: end - pos] = view[pos:end]
                self.left = b""
            else:
                self.left = bytes(view[pos:end])
        if responses:
            self.write(responses[0] if len(responses) == 1 else b"".join(responses))

    def handle(self, frame: memoryview, raw: Any, pos: int, stop: int, responses: list[bytes], owned: bool) -> None:
        """Handle one request. `frame` is a view of the buffer `raw`."""
        _, key, version, correlation, client = HEAD.unpack_from(raw, pos)
        if key == PRODUCE:
            shape = self.shape
            if shape is None or raw[pos + 12 : pos + shape.batch_at] != shape.prefix:
                shape = self.shape = shape_of(frame, pos, version, pos + 14 + client)
            self.produce(frame, raw, pos, stop, correlation, shape, responses, owned)
        elif key == FETCH:
            self.fetch(frame, pos + 14 + client, version, correlation, responses)
        else:
            body = self.other(frame, key, correlation, pos + 14 + client)
            responses.append(SIZE.pack(len(body)) + body)

    def produce(
        self, frame: memoryview, raw: Any, pos: int, stop: int, correlation: int, shape: Shape,
        responses: list[bytes], owned: bool,
    ) -> None:  # fmt: skip
        at = pos + shape.batch_at
        if shape.flexible:  # the records' length is a varint; the size of the rest of the frame determines its size
            stop -= 3
            rest = stop - at
            at += 1 if rest < 128 else 2 if rest < 16385 else 3
        else:
            at += 4
        _, length, _, magic, crc, _, last, _, _, producer, epoch, sequence, count = BATCH.unpack_from(raw, at)
        log = shape.log
        code, base = NONE, log.end
        if length != stop - at - 12 or magic != 2 or crc32c(frame[at + 21 : stop]) != crc:
            code, base = CORRUPT_MESSAGE, -1
        elif count != last + 1 or count <= 0 or (self.walks and not walk(frame, at + 61, stop, count)):
            code, base = INVALID_RECORD, -1
        elif log.producers.get(producer, (epoch, sequence)) != (epoch, sequence):
            code, base = OUT_OF_ORDER, -1
        else:
            log.producers[producer] = (epoch, (sequence + count) & 0x7FFFFFFF)
            START.pack_into(raw, at, base, length, 0)
            if owned:
                log.keep(frame[at:stop])
                log.places.append(len(log.chunks) - 1 << 32)
            else:
                size = stop - at
                if log.at + size > log.capacity:
                    log.room(size)
                log.places.append(len(log.chunks) - 1 << 32 | log.at)
                log.chunk[log.at : log.at + size] = frame[at:stop]
                log.at += size
            log.bases.append(base)
            log.end = base + count
        responses.append(
            shape.pack(shape.response_size, correlation, shape.middle, code, base, -1, 0 if base >= 0 else -1, shape.tail)
        )

    def fetch(self, frame: memoryview, at: int, version: int, correlation: int, responses: list[bytes]) -> None:
        """Respond to a Fetch of one partition. The stored records are sent without a copy."""
        flexible = version >= 12
        at += flexible + (4 if version < 15 else 0) + 12 + 1 + 8 + (1 if flexible else 4)
        if version >= 13:
            name = named = bytes(frame[at : at + 16])
        else:
            size = frame[at] if flexible else 2 + int.from_bytes(frame[at : at + 2], "big")
            named = bytes(frame[at : at + size])
            name = named[1 if flexible else 2 :]
        at += len(named)
        index, _, offset = struct.unpack_from(">iiq", frame, at + (1 if flexible else 4))
        (most,) = SIZE.unpack_from(frame, at + (1 + 28 if flexible else 4 + 24))
        log = logs[name, index]
        records = log.read(offset, most)
        if flexible:
            tail = b"\0\0\0"
            head = b"\0" + bytes(10) + b"\2" + named + b"\2" + struct.pack(">ihqqq", index, 0, log.end, log.end, 0)
            head += b"\0\xff\xff\xff\xff" + uvarint(len(records) + 1)
        else:
            tail = b""
            head = bytes(10) + SIZE.pack(1) + named + SIZE.pack(1)
            head += struct.pack(">ihqqqiii", index, 0, log.end, log.end, 0, -1, -1, len(records))
        responses.append(struct.pack(">ii", 4 + len(head) + len(records) + len(tail), correlation) + head)
        parts = [b"".join(responses), records, tail]
        responses.clear()
        self.send(parts)

    def send(self, parts: list[Any]) -> None:
        """In one system call, send as much as the socket accepts; leave the rest to the transport."""
        sent = 0
        if not self.transport.get_write_buffer_size() and hasattr(os, "writev"):
            with suppress(BlockingIOError):
                sent = os.writev(self.fileno, parts)
        for part in parts:
            if sent >= len(part):
                sent -= len(part)
            else:
                self.write(memoryview(part)[sent:])
                sent = 0

    def other(self, frame: memoryview, key: int, correlation: int, at: int) -> bytes:
        """Makes minimal responses to the requests that a client sends only once. The load generator determines the requests'
        versions.
        """
        response = SIZE.pack(correlation)
        if key == INIT_PRODUCER_ID:  # version 1
            Floor.producer_ids += 1
            return response + struct.pack(">ihqh", 0, 0, Floor.producer_ids, 0)
        if key == METADATA:  # version 1: this broker, no topics
            broker = struct.pack(">ih9sih", NODE_ID, 9, b"127.0.0.1", Floor.port, -1)
            return response + SIZE.pack(1) + broker + struct.pack(">ii", NODE_ID, 0)
        if key != CREATE_TOPICS:  # version 7
            raise ValueError(f"the floor does not support API key {key}")
        size = frame[at + 2]
        name = bytes(frame[at + 3 : at + 2 + size])
        (partitions,) = SIZE.unpack_from(frame, at + 2 + size)
        for index in range(partitions):
            logs[name, index] = logs[TOPIC_ID, index] = Log()
        response += b"\0\0\0\0\0\2" + bytes([size]) + name + TOPIC_ID
        return response + b"\0\0\0" + struct.pack(">ih", partitions, 1) + b"\1\0\0"


def uvarint(number: int) -> bytes:
    """Returns the number as an unsigned varint."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


async def serve(port: int) -> None:
    """Listen until killed."""
    server = await asyncio.get_running_loop().create_server(Floor, "127.0.0.1", port)
    Floor.port = server.sockets[0].getsockname()[1]
    print(f"listening on 127.0.0.1:{Floor.port} (node {NODE_ID})", flush=True)
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Parse the command line, and serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--walk", action="store_true", help="walk over the lengths of the records")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    options = parser.parse_args()
    Floor.walks = options.walk
    if options.loop == "uvloop":
        import uvloop

        uvloop.run(serve(options.port))
    else:
        asyncio.run(serve(options.port))


if __name__ == "__main__":
    main()
