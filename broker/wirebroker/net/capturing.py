"""Capturing what passes the sockets of a host. Without a capture no connection knows of this module."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from wirebroker.capture.packets import Endpoint
from wirebroker.capture.recording import Capture, Conversation
from wirebroker.net.host import Host
from wirebroker.net.listener import Listener
from wirebroker.net.protocol import BrokerProtocol
from wirebroker.net.proxy_host import ClientSide, Node, ProxyHost

UNKNOWN: Endpoint = ("127.0.0.1", 0)


class Captured(asyncio.BufferedProtocol):
    """A protocol whose bytes go into a capture; to be mixed in before the protocol of a connection."""

    capture: Capture
    conversation: Conversation
    _number = 0
    _by_server = False

    @property
    def number(self) -> int:
        """The connection's number in the trace; 0 as long as it has none."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        ends = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        client, server = ((str(end[0]), int(end[1])) if isinstance(end, tuple) else UNKNOWN for end in ends)
        self.conversation = self.capture.opened(client, server, _now())
        super().connection_made(cast("asyncio.BaseTransport", _Tapped(transport, self)))
        self._learn_number()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.conversation.closed(_now(), by_server=self._by_server)
        self.capture.ended(self.conversation, self._number)

    def get_buffer(self, sizehint: int) -> Any:
        self._offered = super().get_buffer(sizehint)
        return self._offered

    def buffer_updated(self, nbytes: int) -> None:
        if not self._number:
            self._learn_number()
        self.conversation.from_client(bytes(memoryview(self._offered)[:nbytes]), _now())
        super().buffer_updated(nbytes)

    def closing(self) -> None:
        """The server closes the connection."""
        self._by_server = True

    def sent(self, data: Any) -> None:
        """These bytes go to the client."""
        self.conversation.to_client(bytes(data), _now())

    def _learn_number(self) -> None:
        self._number = self.number
        if self._number:
            self.capture.numbered(self.conversation, self._number)


class CapturedBroker(Captured, BrokerProtocol):
    """A connection to a broker of ours."""

    def __init__(self, capture: Capture, host: Host, listener: Listener) -> None:
        super().__init__(host, listener)
        self.capture = capture

    @property
    def number(self) -> int:
        return self.connection.number if self._begun else 0


class CapturedClient(Captured, ClientSide):
    """The client's side of a connection through a proxy."""

    def __init__(self, capture: Capture, host: ProxyHost, node: Node) -> None:
        super().__init__(host, node)
        self.capture = capture

    @property
    def number(self) -> int:
        return self.relay.connection.number if self._begun else 0


class _Tapped:
    """A transport that tells what is written to it; everything else is the transport's own."""

    def __init__(self, transport: asyncio.BaseTransport, protocol: Captured) -> None:
        self._transport: Any = transport
        self._protocol = protocol

    def write(self, data: Any) -> None:
        self._protocol.sent(data)
        self._transport.write(data)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self._protocol.closing()
        self._transport.close()

    def abort(self) -> None:
        self._protocol.closing()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _now() -> int:
    """µs since the epoch, by the machine's clock."""
    return time.time_ns() // 1000
