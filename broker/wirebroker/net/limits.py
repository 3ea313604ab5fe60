"""Limits the number of clients' connections to a broker or a proxy, and the memory for arriving frames and unread responses.

The settings are Kafka's: The limits are `max.connections`, `max.connections.per.ip` with its overrides, and
`queued.max.request.bytes` (SocketServer's ConnectionQuotas and SimpleMemoryPool). The limits apply to each broker of a cluster
separately, and to all listeners of a proxy together. Kafka has no limit for unread responses, because it sends records from the
page cache. In wirebroker, the unsent bytes are in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from wirebroker.common.suggestions import nearest
from wirebroker.core.configs import OVERRIDES, BrokerConfigs, connections_by_host

logger = logging.getLogger("wirebroker")

SHARED_BUFFER = 256 * 1024
LARGE_FRAME = SHARED_BUFFER // 2
"""A frame that is larger than this size in bytes gets a buffer of its own."""
SLICE = 0.003
"""One connection may keep the loop busy for this time in seconds, before other connections get their turn."""
WRITE_HIGH_WATER = 1024 * 1024
"""While a connection has more unsent bytes than this, its requests wait."""
MOST_UNREAD = 1 << 30
"""All clients together may leave at most this many bytes unread. A proxy also counts the bytes that its brokers leave
unread."""
OF_PROXY = (
    "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "queued.max.request.bytes",
    "sasl.server.max.receive.size", "socket.request.max.bytes",
)  # fmt: skip
"""The settings that can be given to a proxy."""
QUEUED_IN_PROXY = 256 * 1024 * 1024
"""A proxy's default value of `queued.max.request.bytes`. By default, Kafka and wirebroker's brokers have no such limit."""


def configs_of_proxy(given: Mapping[str, object]) -> BrokerConfigs:
    """Returns the settings of a proxy, which have Kafka's names. Raises ValueError if a proxy has no setting with this name, or
    if Kafka refuses a value."""
    for name in given:
        if name not in OF_PROXY:
            raise ValueError(f"a proxy has no setting {name!r}{nearest(name, OF_PROXY)}")
    return BrokerConfigs({"queued.max.request.bytes": str(QUEUED_IN_PROXY)} | {name: str(given[name]) for name in given})


class Client(Protocol):
    """A client's connection."""

    node_id: int
    client_host: str
    transport: asyncio.Transport

    @property
    def unsent(self) -> int:
        """The number of bytes that are not sent yet, because the peer does not read."""

    def begin(self) -> None:
        """Begin to serve the connection, which may have waited in line."""

    def released(self) -> None:
        """Continue after the connection has waited in line or for memory."""


C = TypeVar("C", bound=Client)


class Limits(Generic[C]):
    """Counts the connections of one host, and the memory for these connections."""

    def __init__(self, configs: BrokerConfigs) -> None:
        self.configs = configs
        self._served: Counter[int] = Counter()
        """For each broker, the number of connections that it serves."""
        self._by_client: Counter[tuple[int, str]] = Counter()
        self._in_line: deque[C] = deque()
        """The connections that wait in line until another connection to the same broker ends."""
        self._arriving: Counter[int] = Counter()
        """For each broker, the number of bytes that are reserved for large frames that are still arriving."""
        self._short: deque[C] = deque()
        """The connections with a large frame that waits until memory can be reserved."""
        self._congested: set[C] = set()
        self.most_unread = MOST_UNREAD

    # Connections

    def opened(self, protocol: C) -> bool:
        """Count a new connection. Returns False if the connection is not served now, because it has to wait in line, or because
        the host has closed it."""
        node_id, client = protocol.node_id, protocol.client_host
        most = connections_by_host(self.configs.text(OVERRIDES)).get(client)
        if most is None:
            most = self.configs.integer("max.connections.per.ip")
        if self._by_client[node_id, client] >= most:
            logger.info("a connection from %s was refused: for this address, max.connections.per.ip is %d", client, most)
            protocol.transport.close()
            return False
        if self._served[node_id] >= self.configs.integer("max.connections"):
            protocol.transport.pause_reading()  # uvloop may ignore this call and read once more
            self._in_line.append(protocol)
            return False
        self._serve(protocol)
        return True

    def _serve(self, protocol: C) -> None:
        self._served[protocol.node_id] += 1
        self._by_client[protocol.node_id, protocol.client_host] += 1

    def lost(self, protocol: C, served: bool) -> None:
        """Remove a connection that has ended. If the connection was `served`, serve the next connection in line."""
        self._congested.discard(protocol)
        if not served:
            if protocol in self._in_line:
                self._in_line.remove(protocol)
            return
        self._served[protocol.node_id] -= 1
        self._by_client[protocol.node_id, protocol.client_host] -= 1
        following = next((each for each in self._in_line if each.node_id == protocol.node_id), None)
        if following is not None:
            self._in_line.remove(following)
            self._serve(following)
            following.begin()
            following.transport.resume_reading()
            following.released()

    def close(self) -> None:
        """Close the connections that wait in line."""
        while self._in_line:
            self._in_line.popleft().transport.abort()

    # Frames that arrive

    def takes(self, protocol: C, size: int) -> bool:
        """Reserve memory for a large frame. If the frame has to wait for other frames, return False, and later call the
        connection's `released`."""
        most = self.configs.integer("queued.max.request.bytes")
        if 0 < most <= self._arriving[protocol.node_id]:
            if protocol not in self._short:
                self._short.append(protocol)
            return False
        self._arriving[protocol.node_id] += size
        return True

    def freed(self, protocol: C, size: int) -> None:
        """Release the memory that was reserved for a large frame, because the frame has arrived or its connection has ended."""
        self._arriving[protocol.node_id] -= size
        waiting, self._short = self._short, deque()
        for each in waiting:
            each.released()

    # Responses that the peer does not read

    def congested(self, protocol: C) -> C | None:
        """Remember that the peer of a connection does not read. If all connections together have too many unsent bytes, returns
        the connection with the most unsent bytes, else None.
        """
        self._congested.add(protocol)
        if sum(each.unsent for each in self._congested) <= self.most_unread:
            return None
        return max(self._congested, key=lambda each: each.unsent)

    def read(self, protocol: C) -> None:
        """Remember that the peer of a connection reads again."""
        self._congested.discard(protocol)
