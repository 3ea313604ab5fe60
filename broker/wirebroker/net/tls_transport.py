"""TLS between a socket and the protocol of a connection. OpenSSL works only on bytes in memory. The socket's transport sends
and receives these bytes.

asyncio's own TLS needs 256 KiB of memory for each connection, and cannot stop a handshake in the middle. A handshake takes half
a millisecond of CPU time, and thousands of handshakes may begin at the same time, so they take turns. Threads would be slower,
because each step of a handshake would have to wait for Python's global lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import ssl
from collections import deque
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any, Protocol, cast

from kafkawire.primitives import Buffer
from wirebroker.net.limits import SLICE
from wirebroker.net.tls import cause_of

logger = logging.getLogger("wirebroker")

HANDSHAKE_WITHIN_S = 60.0
"""A connection is closed if its handshake takes longer than this time in seconds (by the machine's clock)."""
BUFFER = 64 * 1024
"""The number of bytes that are read from the socket at once: four TLS records."""


class Watch(Protocol):
    """An observer of the handshakes at a listener."""

    def began(self, transport: TlsTransport) -> None:
        """Called before a handshake. The method may stop the handshake (`transport.held_by`), and may replace
        `transport.context`."""

    def failed(self, client_host: str, cause: str) -> None:
        """Called after a failed handshake."""


class HandshakeTurns:
    """Lets TLS handshakes use only a slice of each turn of the event loop. Holds the receive buffer that TLS
    connections share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, shared: bool = True) -> None:
        self.loop = loop
        self.unfinished: dict[TlsTransport, float] = {}
        """The connections whose handshake is not complete, in the order in which they began. The value of each is the loop's
        time at which the broker closes the connection."""
        self._alarm: asyncio.TimerHandle | None = None
        self._buffer = memoryview(bytearray(BUFFER)) if shared else None
        self._waiting: deque[Callable[[], None]] = deque()
        self._until = -math.inf
        """The end of the slice, as a time of `perf_counter`. The next slice begins in the next turn of the loop, or after a
        pause that is as long as a slice."""

    def receive_buffer(self) -> memoryview:
        """Returns the buffer into which a new connection receives bytes."""
        return self._buffer if self._buffer is not None else memoryview(bytearray(BUFFER))

    def do(self, step: Callable[[], None]) -> None:
        """Do the next step of a handshake now, or in a later turn if the slice is used up."""
        now = perf_counter()
        if self._waiting:
            self._waiting.append(step)
        elif now < self._until:
            step()
        elif now >= self._until + SLICE:
            self._until = now + SLICE
            step()
        else:
            self._waiting.append(step)
            self.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._until = perf_counter() + SLICE
        while self._waiting and perf_counter() < self._until:
            self._waiting.popleft()()
        if self._waiting:
            self.loop.call_soon(self._next_turn)

    def began(self, transport: TlsTransport) -> None:
        """Close a connection if its handshake is not complete after HANDSHAKE_WITHIN_S. All connections share one timer."""
        self.unfinished[transport] = self.loop.time() + HANDSHAKE_WITHIN_S
        if self._alarm is None:
            self._alarm = self.loop.call_later(HANDSHAKE_WITHIN_S, self._give_up)

    def over(self, transport: TlsTransport) -> None:
        """Remember that a handshake has succeeded or failed."""
        self.unfinished.pop(transport, None)

    def go_on(self, rule: Hashable) -> None:
        """Continue the handshakes that this fault rule stalls, because the rule was unloaded."""
        for each in [each for each in self.unfinished if each.held_by is rule]:
            self.loop.call_soon(each.go_on)

    def _give_up(self) -> None:
        """Close the connections whose time is over."""
        self._alarm, now = None, self.loop.time()
        for transport, end in list(self.unfinished.items()):
            if end > now:
                self._alarm = self.loop.call_later(end - now, self._give_up)
                break
            transport.abort()

    def close(self) -> None:
        """End all handshakes, because the listeners are closed."""
        if self._alarm is not None:
            self._alarm.cancel()
        self.abort()

    def abort(self) -> None:
        """Close the connections whose handshake is not complete."""
        for each in list(self.unfinished):
            each.abort()


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """The server's end of one TLS connection. The object is the protocol of the socket's transport, and the transport of the
    protocol above.

    The protocol above is connected when the handshake is complete. If the handshake fails, the protocol above is never called.
    """

    def __init__(
        self, above: asyncio.BufferedProtocol, context: ssl.SSLContext, listener: str, turns: HandshakeTurns,
        watch: Watch | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.context = context
        """The SSL context with the broker's certificate. A handshake uses the context that is set when the handshake begins."""
        self.held_by: Hashable | None = None
        """The fault rule that stalls the handshake until `go_on` is called."""
        self._above, self._listener, self._turns, self._watch = above, listener, turns, watch
        self._view = turns.receive_buffer()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._early = b""
        """Bytes of the handshake that have arrived and wait for their turn."""
        self._is_queued = False
        self._is_connected = False
        self._is_reading = True
        self._is_closing = False
        self._failure: Exception | None = None

    # The protocol of the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        self._turns.began(self)
        if self._watch is not None:
            self._watch.began(self)
        self._tls = self.context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._turns.over(self)
        self._is_closing = True
        if self._is_connected:
            self._above.connection_lost(exc or self._failure)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_connected:
            self._incoming.write(self._view[:nbytes])
            self._decrypt()
        else:
            self._early += self._view[:nbytes]
            self._ask()

    def eof_received(self) -> bool:
        if self._is_queued:  # the waiting bytes may contain the end of the handshake and requests
            self._socket.pause_reading()  # when reading resumes, the socket reports the end again
            return True
        return bool(self._is_connected and self._above.eof_received())

    def pause_writing(self) -> None:
        if self._is_connected:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._is_connected:
            self._above.resume_writing()

    # The handshake

    def go_on(self) -> None:
        """Continue a handshake that a rule has stalled."""
        self.held_by = None
        if self._early and not self._is_queued:
            self._ask()

    def _ask(self) -> None:
        """Request a turn for the bytes that have arrived."""
        if self.held_by is not None or self._is_queued:
            self._socket.pause_reading()  # only few bytes can arrive before the client gets a response
        else:
            self._is_queued = True
            self._turns.do(self._shake)

    def _shake(self) -> None:
        self._is_queued = False
        self._incoming.write(self._early)
        self._early = b""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            self._socket.resume_reading()
        except ssl.SSLError as failure:  # reported even if the client is gone: its alert may say why
            self._refuse(failure)
        else:
            if not self._is_closing:
                self._connect()

    def _connect(self) -> None:
        self._turns.over(self)
        self._is_connected = True
        self._socket.resume_reading()
        self._above.connection_made(self)
        self._decrypt()  # the response to a request that has arrived is sent together with the end of the handshake

    def _refuse(self, failure: ssl.SSLError) -> None:
        cause = cause_of(failure)
        logger.info("a TLS handshake at %s failed: %s", self._listener, cause)
        if self._watch is not None:
            self._watch.failed(str((self.get_extra_info("peername") or ("",))[0]), cause)
        self._send()
        self._socket.close()

    # Data

    def _decrypt(self) -> None:
        """Pass the decrypted bytes to the protocol above, until no bytes are left or the protocol pauses reading."""
        above, has_more = self._above, True
        while has_more and self._is_reading and not self._is_closing:
            view, filled = memoryview(above.get_buffer(-1)), 0
            try:
                while filled < len(view):
                    count = int(self._tls.read(len(view) - filled, view[filled:]))
                    if not count:  # the client has sent close_notify; the bytes before it are handled first
                        if not filled:
                            self.close()
                        break
                    filled += count
            except ssl.SSLWantReadError:
                has_more = False
            except ssl.SSLError as failure:
                self._failure = failure
                self._send()
                self._socket.close()
                has_more = False
            if filled:
                above.buffer_updated(filled)
        if self._outgoing.pending:
            self._send()

    def _send(self) -> None:
        """Send the bytes that OpenSSL has produced."""
        if (data := self._outgoing.read()) and not self._socket.is_closing():
            self._socket.write(data)

    # The transport of the protocol above

    def write(self, data: Buffer) -> None:
        if len(data) and not self._is_closing:
            self._tls.write(data)
            self._send()

    def close(self) -> None:
        """Send the bytes that were written already, then close_notify, and close the connection."""
        if not self._is_closing:
            self._is_closing = True
            with contextlib.suppress(ssl.SSLError):  # raised if the client's own close_notify has not arrived
                self._tls.unwrap()
            self._send()
            self._socket.close()

    def abort(self) -> None:
        """Close the connection immediately, and drop the unsent bytes."""
        self._is_closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._socket.is_closing()

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        self._socket.resume_reading()
        self._turns.loop.call_soon(self._decrypt)  # bytes may have arrived already

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns the connection's TLS object for the name `ssl_object`. For any other name, asks the socket's transport."""
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)
