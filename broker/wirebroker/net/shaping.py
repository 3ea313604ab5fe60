"""Carries out faults of the network: sends responses in pieces, slowly, truncated or damaged, and resets connections.

Pauses use the machine's time and not the broker's clock, because a client waits in the machine's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from socket import SO_LINGER, SOL_SOCKET

from kafkawire.primitives import Buffer
from wirebroker.requests.effects import Shape

AT_ONCE = struct.pack("ii", 1, 0)
"""The value of SO_LINGER for a time of 0. If a socket has this option, closing the socket resets the connection."""


class ShapedLine:
    """Sends the responses of one connection in order, each in the form that its `Shape` describes.

    `free` is called when everything is sent. Until then, other data must be sent with `write`, which queues the data.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, free: Callable[[], None]) -> None:
        self._transport = transport
        self._loop = loop
        self._free = free
        self._waiting: deque[tuple[float, Buffer]] = deque()
        self._alarm: asyncio.Handle | None = None
        self._closing = False
        self.slowed_by: Hashable | None = None
        """The rule that slows down the latest response."""

    def send(self, parts: Sequence[Buffer], shape: Shape) -> None:
        """Queue a response to be sent in this shape."""
        self.slowed_by = shape.slowed_by
        data = bytearray(b"".join(parts))
        for at in shape.flipped:
            data[at] ^= 0xFF
        if shape.cut is not None:
            del data[shape.cut :]
        step = shape.piece or len(data) or 1
        for start in range(0, len(data), step):
            self._waiting.append((shape.pause, bytes(data[start : start + step])))
        self._go_on()

    def write(self, data: Buffer) -> None:
        """Send these bytes after the responses that are queued already."""
        self._waiting.append((0.0, data))
        self._go_on()

    def close(self) -> None:
        """Close the connection when everything is sent."""
        self._closing = True
        self._go_on()

    def hurry(self) -> None:
        """Send everything that is queued at once."""
        self._waiting = deque([(0.0, b"".join(piece for _, piece in self._waiting))])
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_soon(self._next)

    def stop(self) -> None:
        """Drop everything that is not sent, because the connection is closed."""
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()

    def _go_on(self) -> None:
        if self._alarm is None:
            self._alarm = self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._alarm = None
        if not self._waiting:
            if self._closing:
                self._transport.close()
            else:
                self._free()
            return
        pause, piece = self._waiting.popleft()
        self._transport.write(piece)
        last = not self._waiting
        self._alarm = self._loop.call_soon(self._next) if last else self._loop.call_later(pause, self._next)


def reset_connection(transport: asyncio.Transport) -> None:
    """Close the connection with a RST. If the system cannot send a RST, close the connection immediately without it."""
    held = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        held.setsockopt(SOL_SOCKET, SO_LINGER, AT_ONCE)
    transport.abort()
