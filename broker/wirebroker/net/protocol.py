"""One client's connection to a broker: splits the received bytes into frames, passes the frames to the engine, and sends the
responses.

All connections of a host receive into one common buffer, because each read is handled before the next read begins. The bytes of
an incomplete frame are copied. A frame that is too large for the common buffer is received into a buffer of its own, which the
log can keep without a copy. Such a buffer uses no memory before bytes are written to it. So a client that announces a frame of
90 MB and sends no data uses no memory.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from kafkawire.frames import SIZE, SIZE_BYTES, frame_end
from wirebroker.net.driver import IN_LINE, QUEUED, READY, WAITING, ClientConnection, Driver
from wirebroker.net.limits import LARGE_FRAME, SLICE
from wirebroker.net.shaping import reset_connection
from wirebroker.net.tls import subject_of
from wirebroker.requests.connection import CLOSED
from wirebroker.requests.effects import AdvanceClock
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.session import Stage

FIRST_OF_LARGE = 4096
"""If a large frame is expected, this many bytes are read before its size is known."""

if TYPE_CHECKING:
    from wirebroker.core.logs.arena import Arena
    from wirebroker.engine.engine import Engine
    from wirebroker.net.listener import Listener


class Server(Driver["BrokerProtocol"]):
    """The part of the host that a connection uses."""

    engine: Engine
    arena: Arena

    def time(self) -> int:
        """Run the timers that are due, and return the time."""
        raise NotImplementedError

    def run_overdue(self, now: int) -> None:
        """Run the timers that are due, for at most one slice of time."""
        raise NotImplementedError

    def queue(self, protocol: BrokerProtocol) -> None:
        """Put the connection at the end of the queue of connections that wait for their next slice."""
        raise NotImplementedError

    def advance_soon(self, ms: int) -> None:
        """Move the clock forward as soon as the loop is free."""
        raise NotImplementedError


class BrokerProtocol(ClientConnection):
    """Receives and handles the bytes of one connection to one broker."""

    _host: Server

    def __init__(self, host: Server, listener: Listener) -> None:
        super().__init__(host, listener.node_id)
        self._engine = host.engine
        self._listener = listener
        self._view = memoryview(host.receive_buffer())
        self._tail = b""
        """Received bytes that are not handled yet: the beginning of a frame, or whole frames while the connection waits."""
        self._large: memoryview | None = None
        self._large_filled = 0
        self._expects_large = False
        """Whether the last frame was large. Then the next frame is probably large, too, and its first bytes are read alone,
        because what is read into the common buffer has to be copied."""

    def begin(self) -> None:
        if self._state is IN_LINE:
            self._state = WAITING
        self._engine = self._host.engine  # a reset may have replaced the engine after the connection was accepted
        now = self._host.clock.now()
        listener = self._listener
        subject = subject_of(self.transport) if listener.protocol is SecurityProtocol.SSL else ""
        self.connection = self._engine.connect(self.node_id, self.client_host, listener.name, now, listener.protocol, subject)
        self._host.opened(self)
        if not self._engine.cluster.brokers[self.node_id].running:
            reset_connection(self.transport)  # the broker is stopped, so act as if its port were closed
            return
        if self._engine.faults is not None:
            self._engine.faults.connected(self.connection, now)
            self._host.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._large_filled :]
        if self._tail:
            self._view[: len(self._tail)] = self._tail
        elif self._expects_large:
            return self._view[:FIRST_OF_LARGE]
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
                self._expects_large = False
                self._take(self._view[:filled], now)
        host.flush()
        if host.watchers:
            host.notify()

    def _take(self, data: memoryview, now: int) -> None:
        """Handle the complete frames in `data`, and keep the remaining bytes."""
        connection, receive = self.connection, self._engine.receive
        connection.halted = False  # the previous request may have set this after `receive` returned
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
                    if pos < end:
                        self._wait()  # `released` handles the later frames after the response is sent
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
        """Handle a large frame, which is now complete. It has a buffer of its own."""
        large, self._large = self._large, None
        if large is not None:
            self._expects_large = True
            self.give_back()
            try:
                self._engine.receive(self.connection, large[4:], now, owned=True)
            except Exception:
                self._host.failed(self.connection)

    def _slice_is_over(self) -> bool:
        """Tells whether the connection's slice of time is over. The first call starts the slice."""
        host = self._host
        if host.until:
            return perf_counter() > host.until
        host.until = perf_counter() + SLICE
        return False

    def _wait_for_turn(self) -> None:
        if self._state is not QUEUED:
            self._state = QUEUED
            self.read(False)
            self._host.queue(self)

    def take_turn(self) -> None:
        """Use the connection's slice."""
        self._state = WAITING
        self.released()

    def _carry(self, data: memoryview, pos: int, end: int) -> None:
        left = end - pos
        if left >= 4 and self.connection.state is not CLOSED:
            if self._engine.faults is not None and not self._held():
                self._engine.faults.arriving(self.connection, data[pos + 4 : end], self._host.clock.now())
            size = frame_end(data, pos) - pos
            if size > LARGE_FRAME and left < size <= self.connection.frame_limit + 4:
                if not self.reserve(size):
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
    def has_more(self) -> bool:
        return self._state is not READY or not self._reading

    def _held(self) -> bool:
        """Tells whether the connection's next request has to wait until the previous request has a response, or until the
        client reads."""
        connection = self.connection
        return connection.parked is not None or self.congested or self._line is not None or connection.state is CLOSED

    def perform(self, effect: object) -> None:
        if isinstance(effect, AdvanceClock):
            self._host.advance_soon(effect.ms)
        else:
            super().perform(effect)

    def released(self) -> None:
        """Continue with the requests that were received, if the connection does not have to wait any more."""
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
            self.read(True)

    go_on = released

    def resume_writing(self) -> None:
        self.congested = False
        self._host.limits.read(self)
        self._host.until = 0.0
        self.released()
        self._host.flush()

    def _wait(self) -> None:
        """Keep the received bytes for later, and leave further bytes in the operating system's buffers.

        While requests wait, the broker does not notice that the client has closed the connection, so these requests are handled
        nevertheless. Kafka's `Selector` mutes the channel with the same result.
        """
        if self._state is READY:
            self._state = WAITING
        self.read(False)


def oversized(first: bytes, size: int, limit: int, setting: str = "socket.request.max.bytes") -> str:
    """Returns a sentence about an impossible frame size. If the client seems to speak another protocol, the sentence names this
    protocol."""
    if first[:2] == b"\x16\x03":
        return "the client speaks TLS, and this listener is plaintext"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN"):
        return "the client speaks HTTP, and this is a Kafka listener"
    if first == b"PRI ":
        return "the client speaks HTTP/2 (as gRPC does), and this is a Kafka listener"
    if size < 0:
        return f"the client announced a frame of {size} bytes"
    return f"the client announced a frame of {size} bytes; {setting} is {limit}"
