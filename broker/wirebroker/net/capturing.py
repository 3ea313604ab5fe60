"""Captures the bytes of a connection. A tap between the transport and the protocol forwards all calls unchanged."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol, cast

from wirebroker.trace.rows import Row

Endpoint = tuple[str, int]
"""A host and a port."""
UNKNOWN: Endpoint = ("127.0.0.1", 0)


class Conversation(Protocol):
    """One connection of a capture. Times are in µs since the epoch."""

    def numbered(self, number: int) -> None:
        """Note the number that the trace gives to this connection."""

    def from_client(self, data: bytes, now: int) -> None:
        """Write bytes that have arrived from the client."""

    def to_client(self, data: bytes, now: int) -> None:
        """Write bytes that were sent to the client."""

    def closed(self, now: int, *, by_server: bool) -> None:
        """End the connection in the capture."""


class Capture(Protocol):
    """A capture that is being written. The capture is also a sink of the trace, and writes verdicts as comments on the
    packets."""

    def opened(self, client: Endpoint, server: Endpoint, now: int) -> Conversation:
        """Begin the capture of a new connection."""

    def close(self) -> None:
        """Close the file."""

    def __call__(self, row: Row, /) -> None:
        """Keep a row about a verdict or a fault. It becomes a comment on the next packet to the row's client."""


class Numbered(Protocol):
    """A `BufferedProtocol` with the number of its connection in the trace."""

    @property
    def number(self) -> int:
        """The connection's number in the trace, or 0 while the connection has no number yet."""


class Tap(asyncio.BufferedProtocol):
    """Forwards every call to the protocol, and writes the bytes of both directions into a capture."""

    def __init__(self, capture: Capture, above: asyncio.BufferedProtocol) -> None:
        self._capture, self._above = capture, above
        self._numbered = cast("Numbered", above)
        self._number = 0
        self._by_server = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        ends = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        client, server = ((str(end[0]), int(end[1])) if isinstance(end, tuple) else UNKNOWN for end in ends)
        self._conversation = self._capture.opened(client, server, _now())
        self._above.connection_made(cast("asyncio.BaseTransport", _Tapped(transport, self)))
        self._learn_number()

    def connection_lost(self, exc: Exception | None) -> None:
        self._above.connection_lost(exc)
        self._conversation.closed(_now(), by_server=self._by_server)

    def get_buffer(self, sizehint: int) -> Any:
        self._offered = self._above.get_buffer(sizehint)
        return self._offered

    def buffer_updated(self, nbytes: int) -> None:
        if not self._number:
            self._learn_number()
        self._conversation.from_client(bytes(memoryview(self._offered)[:nbytes]), _now())
        self._above.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        return self._above.eof_received()

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()

    def closing(self) -> None:
        """Remember that the server closes the connection."""
        self._by_server = True

    def sent(self, data: Any) -> None:
        """Write into the capture the bytes that are sent to the client."""
        self._conversation.to_client(bytes(data), _now())

    def _learn_number(self) -> None:
        self._number = self._numbered.number
        if self._number:
            self._conversation.numbered(self._number)


class _Tapped:
    """A transport that forwards all calls to the real transport, and tells the tap which bytes are written."""

    def __init__(self, transport: asyncio.BaseTransport, tap: Tap) -> None:
        self._transport: Any = transport
        self._tap = tap

    def write(self, data: Any) -> None:
        self._tap.sent(data)
        self._transport.write(data)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self._tap.closing()
        self._transport.close()

    def abort(self) -> None:
        self._tap.closing()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _now() -> int:
    """Returns the time of the machine's clock, in µs since the epoch."""
    return time.time_ns() // 1000
