"""One client's connection: bytes into frames, frames to the engine, responses back.

All connections of a host receive into one buffer, because each read is handled before the next begins; the bytes of an
unfinished frame are carried over. A frame too large for that buffer gets its own, which is filled directly from the socket
and can become the log's without another copy. It takes no memory until bytes are written there, so a peer that only
announces 90 MB costs nothing.

The states of a connection (`State`):

    IN_LINE ─▶ WAITING ◀─▶ READY
                 ▲ │         │
                 │ ▼         │
               QUEUED ◀──────┘

A connection becomes READY when nothing holds it, WAITING when a frame has to wait, and QUEUED when its slice of the loop's
time is over; its turn makes it WAITING. A connection that is served at once begins READY.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, cast

from kafkawire.frames import SIZE, SIZE_BYTES, frame_end
from kafkawire.primitives import Buffer
from wirebroker.net.shaping import ShapedLine, reset_connection
from wirebroker.net.tls import subject_of
from wirebroker.requests.effects import Shape
from wirebroker.security.principals import distinguished_name
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.session import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from wirebroker.core.logs.arena import Arena
    from wirebroker.engine.engine import Engine
    from wirebroker.net.clock import Clock
    from wirebroker.net.limits import Limits
    from wirebroker.net.listener import Listener
    from wirebroker.requests.connection import Connection

SHARED_BUFFER = 256 * 1024
LARGE_FRAME = SHARED_BUFFER // 2
"""A frame with more bytes gets its own buffer."""
SLICE = 0.003
"""Seconds that one connection may keep the loop busy before others get their turn."""
WRITE_HIGH_WATER = 1024 * 1024
"""Unsent bytes beyond which no more requests of a connection are handled."""


class State(Enum):
    """How a connection treats complete frames that arrive."""

    IN_LINE = "keeps them: the broker serves as many connections as it may, and does not know this one"
    READY = "hands them to the engine as they arrive"
    WAITING = "keeps them: for a response, for the client to read, or for memory"
    QUEUED = "keeps them: the host will call `take_turn`"


IN_LINE, READY, WAITING, QUEUED = State  # Python looks up a global name faster than a member of an enum


class Server(Protocol):
    """The host as a connection sees it."""

    engine: Engine
    clock: Clock
    loop: asyncio.AbstractEventLoop
    limits: Limits[BrokerProtocol]
    arena: Arena
    until: float
    """When the slice of the connection that is being served ends, by `perf_counter`; 0 before the slice has begun."""
    watchers: list[Callable[[], None]]
    alarm_at: int | None
    """The time of the next timer, in ms since the epoch."""

    def time(self) -> int:
        """Return the time, after the timers that are due by then have run."""

    def run_overdue(self, now: int) -> None:
        """Run the timers that are due, until the slice of time is used up."""

    def receive_buffer(self) -> bytearray:
        """The buffer that a new connection receives into."""

    def opened(self, protocol: BrokerProtocol) -> None:
        """Register a connection."""

    def lost(self, protocol: BrokerProtocol) -> None:
        """Forget a connection that has ended."""

    def left_unread(self, protocol: BrokerProtocol) -> None:
        """A client does not read its responses."""

    def queue(self, protocol: BrokerProtocol) -> None:
        """Give the connection its next slice after the others have had theirs."""

    def flush(self) -> None:
        """Perform the engine's effects, and continue with connections that waited for a response."""

    def notify(self) -> None:
        """Wake the watchers that wait for a condition."""

    def failed(self, connection: Connection) -> None:
        """Log the current exception, and close the connection."""


class BrokerProtocol(asyncio.BufferedProtocol):
    """Receives for one connection of one broker."""

    def __init__(self, host: Server, listener: Listener) -> None:
        self._host = host
        self._engine = host.engine
        self.node_id = listener.node_id
        self.client_host = ""
        self._state = IN_LINE
        self._listener = listener
        self._buffer = host.receive_buffer()
        self._view = memoryview(self._buffer)
        self._tail = b""
        """Received bytes that are not handled yet: the beginning of a frame, or whole frames while the connection waits."""
        self._large: memoryview | None = None
        self._large_filled = 0
        self.congested = False
        """Whether the client leaves more than WRITE_HIGH_WATER unread."""
        self._line: ShapedLine | None = None
        """Sends a response in the shape of a fault, until all of it is sent."""
        self._reading = True
        self.quiet = 0
        """How many idle checks in a row found that nothing had arrived."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.write = self.transport.write
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        if self._host.limits.opened(self):
            self._state = READY
            self.begin()

    @property
    def number(self) -> int:
        """The connection's number in the trace, or 0 as long as it has none."""
        return 0 if self._state is IN_LINE else self.connection.number

    def begin(self) -> None:
        """Serve the connection."""
        if self._state is IN_LINE:
            self._state = WAITING
        self._engine = self._host.engine  # a reset may have replaced it after the connection was accepted
        now = self._host.clock.now()
        listener = self._listener
        certificate = self.transport.get_extra_info("peercert") if listener.protocol is SecurityProtocol.SSL else None
        subject = distinguished_name(subject_of(certificate)) if certificate else ""
        self.connection = self._engine.connect(self.node_id, self.client_host, listener.name, now, listener.protocol, subject)
        self.transport.set_write_buffer_limits(WRITE_HIGH_WATER)
        self._host.opened(self)
        if not self._engine.cluster.brokers[self.node_id].running:
            reset_connection(self.transport)  # as the system does for a closed port
            return
        if self._engine.faults is not None:
            self._engine.faults.connected(self.connection, now)
            self._host.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.limits.lost(self, self._state is not IN_LINE)
        if self._state is IN_LINE:
            return
        if self._large is not None:
            large, self._large = self._large, None
            self._host.limits.freed(self, len(large))
        if self._line is not None:
            self._line.stop()
        reason = "the client closed it" if exc is None else f"it broke: {exc}"
        self._engine.disconnected(self.connection, reason, self._host.clock.now())
        self._host.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._large_filled :]
        if self._tail:
            self._view[: len(self._tail)] = self._tail
        return self._view[len(self._tail) :]

    def buffer_updated(self, nbytes: int) -> None:
        host = self._host
        now = host.clock.now()
        if host.alarm_at is not None and host.alarm_at <= now:  # as `host.time` does
            host.run_overdue(now)
        host.until = 0.0
        self.quiet = 0
        if self._large is not None:
            self._large_filled += nbytes
            if self._large_filled == len(self._large):
                if self._state is not READY or self._held():
                    self._wait()
                else:
                    self._take_large(now)
            elif self._engine.faults is not None:
                self._engine.faults.arriving(self.connection, self._large[4 : self._large_filled], now)
        else:
            filled = len(self._tail) + nbytes
            if self._state is not READY or self._held():
                self._tail = bytes(self._view[:filled])
                self._wait()
            else:
                self._take(self._view[:filled], now)
        host.flush()
        if host.watchers:
            host.notify()

    def _take(self, data: memoryview, now: int) -> None:
        """Handle the whole frames in `data`, and carry over the rest."""
        connection, receive = self.connection, self._engine.receive
        pos, end = 0, len(data)
        try:
            while end - pos >= SIZE_BYTES:
                (size,) = SIZE.unpack_from(data, pos)
                if not 0 <= size <= connection.frame_limit:
                    self._engine.close(connection, self._oversized(bytes(data[pos : pos + 4]), size))
                    return
                start = pos + SIZE_BYTES
                after = start + size
                if after > end:
                    break
                pos = after
                receive(connection, data[start:after], now)
                if connection.halted or self.congested:
                    connection.halted = False  # `released` continues when the responses are on their way
                    self._state = WAITING if pos < end else READY
                    break
                if pos == end:
                    break
                if self._slice_is_over():
                    self._wait_for_turn()
                    break
        except Exception:
            self._host.failed(self.connection)
        if pos == end:
            self._tail = b""
        else:
            self._carry(data, pos, end)

    def _oversized(self, first: bytes, size: int) -> str:
        done = self.connection.session.stage is Stage.DONE
        setting = "socket.request.max.bytes" if done else "sasl.server.max.receive.size"
        return oversized(first, size, self.connection.frame_limit, setting)

    def _take_large(self, now: int) -> None:
        """Handle the frame that filled a buffer of its own."""
        large, self._large = self._large, None
        if large is not None:
            self._host.limits.freed(self, len(large))
            try:
                self._engine.receive(self.connection, large[4:], now, owned=True)
            except Exception:
                self._host.failed(self.connection)

    def _slice_is_over(self) -> bool:
        """Whether the connection has kept the loop busy for long enough. The first call starts its time."""
        host = self._host
        if host.until:
            return perf_counter() > host.until
        host.until = perf_counter() + SLICE
        return False

    def _wait_for_turn(self) -> None:
        if self._state is not QUEUED:
            self._state = QUEUED
            self._host.queue(self)

    def take_turn(self) -> None:
        """Use the connection's slice."""
        self._state = WAITING
        self.released()

    def _carry(self, data: memoryview, pos: int, end: int) -> None:
        left = end - pos
        if left >= 4 and not self.connection.closed:
            if self._engine.faults is not None and not self._held():
                self._engine.faults.arriving(self.connection, data[pos + 4 : end], self._host.clock.now())
            size = frame_end(data, pos) - pos
            if size > LARGE_FRAME and left < size <= self.connection.frame_limit + 4:
                if not self._host.limits.takes(self, size):
                    self._tail = bytes(data[pos:end])
                    self._wait()
                    return
                self._large = self._host.arena.take(size)
                self._large_filled = left
                self._large[:left] = data[pos:end]
                self._tail = b""
                return
        self._tail = bytes(data[pos:end]) if left else b""

    @property
    def unsent(self) -> int:
        """Bytes of responses that the client leaves unread."""
        return self.transport.get_write_buffer_size()

    @property
    def has_more(self) -> bool:
        """Whether a call of `released` may have an effect."""
        return self._state is not READY or not self._reading

    def _held(self) -> bool:
        """Whether the next request has to wait: for a response to the last one, or for the client to read."""
        connection = self.connection
        return connection.parked is not None or self.congested or self._line is not None or connection.closed

    def released(self) -> None:
        """Continue with received requests, if nothing blocks the connection any more."""
        if self._held() or self._state is QUEUED or self.transport.is_closing():
            return
        if self._state is WAITING:
            if self._slice_is_over():
                self._wait_for_turn()
                return
            self._state = READY
            if self._large is None:
                tail, self._tail = memoryview(self._tail), b""
                self._take(tail, self._host.time())
            elif self._large_filled == len(self._large):
                self._take_large(self._host.time())
        if not self._reading and self._state is READY and not self._held():
            self._reading = True
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.congested = True
        self._host.left_unread(self)

    def resume_writing(self) -> None:
        self.congested = False
        self._host.limits.read(self)
        self._host.until = 0.0
        self.released()
        self._host.flush()

    def send_shaped(self, parts: Sequence[Buffer], shape: Shape) -> None:
        """Send a response as a fault shapes it. Until it is sent, no other request of the connection is handled."""
        if self._line is None:
            self._line = ShapedLine(self.transport, self._host.loop, self._line_is_free)
            self.write = self._line.write
        self._line.send(parts, shape)

    def _line_is_free(self) -> None:
        self._line = None
        self.write = self.transport.write
        self.released()
        self._host.flush()

    def close(self, reset: bool) -> None:
        """Close the connection when everything is sent, or reset it at once."""
        if reset:
            reset_connection(self.transport)
        elif self._line is not None:
            self._line.close()
        else:
            self.transport.close()

    def _wait(self) -> None:
        """Keep the received bytes, and leave later bytes in the system's buffers."""
        if self._state is READY:
            self._state = WAITING
        if self._reading and not self.transport.is_closing():
            self._reading = False
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        return False


def oversized(first: bytes, size: int, limit: int, setting: str = "socket.request.max.bytes") -> str:
    """A sentence about an impossible frame size; it names the protocol that the client seems to speak."""
    if first[:2] == b"\x16\x03":
        return "the client speaks TLS, and this listener is plaintext"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN"):
        return "the client speaks HTTP, and this is a Kafka listener"
    if first == b"PRI ":
        return "the client speaks HTTP/2 (as gRPC does), and this is a Kafka listener"
    if size < 0:
        return f"the client announced a frame of {size} bytes"
    return f"the client announced a frame of {size} bytes; {setting} is {limit}"
