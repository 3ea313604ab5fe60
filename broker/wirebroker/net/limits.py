"""Limits for clients of brokers and of a proxy: connections, memory for arriving frames, memory for unread responses.

The settings are Kafka's: `max.connections`, `max.connections.per.ip` with its overrides, and `queued.max.request.bytes`
(SocketServer's ConnectionQuotas and SimpleMemoryPool). Each broker of a cluster counts by itself; a proxy counts for all its
listeners together. Kafka has no limit for responses, because it sends them from the page cache. Here the unsent part is in
memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from wirebroker.common.suggestions import nearest
from wirebroker.core.configs import BrokerConfigs

logger = logging.getLogger("wirebroker")

SHARED_BUFFER = 256 * 1024
LARGE_FRAME = SHARED_BUFFER // 2
"""A frame with more bytes gets its own buffer."""
SLICE = 0.003
"""Seconds for which one connection may keep the loop busy before other connections get their turn."""
WRITE_HIGH_WATER = 1024 * 1024
"""Unsent bytes beyond which no more requests of a connection are handled."""
MOST_UNREAD = 1 << 30
"""Bytes that all clients together may leave unread. A proxy also counts the bytes that its brokers leave unread."""
OF_PROXY = (
    "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "queued.max.request.bytes",
    "sasl.server.max.receive.size", "socket.request.max.bytes",
)  # fmt: skip
"""The settings of a proxy."""
QUEUED_IN_PROXY = 256 * 1024 * 1024
"""A proxy's default of `queued.max.request.bytes`. Kafka has no limit by default, and a wirebroker keeps Kafka's default."""


def configs_of_proxy(given: Mapping[str, object]) -> BrokerConfigs:
    """The limits of a proxy, by Kafka's names. Raises ValueError for other settings, and for values that Kafka refuses."""
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
        """Bytes for the peer that are not sent yet, because it does not read."""

    def begin(self) -> None:
        """Serve the connection, which waited in line."""

    def released(self) -> None:
        """Continue with connections that waited for a place in line or for memory."""


C = TypeVar("C", bound=Client)


class Limits(Generic[C]):
    """Counts the connections of one host and their memory."""

    def __init__(self, configs: BrokerConfigs) -> None:
        self.configs = configs
        self._served: Counter[int] = Counter()
        """Connections by broker."""
        self._by_client: Counter[tuple[int, str]] = Counter()
        self._in_line: deque[C] = deque()
        """Connections that wait until another connection of their broker ends."""
        self._arriving: Counter[int] = Counter()
        """Bytes reserved for large frames that are still arriving, by broker."""
        self._short: deque[C] = deque()
        """Connections whose large frame waits for a reservation."""
        self._congested: set[C] = set()
        self.most_unread = MOST_UNREAD

    # Connections

    def opened(self, protocol: C) -> bool:
        """Count a new connection. Returns False if it is not served now, because it waits in line or is closed."""
        node_id, client = protocol.node_id, protocol.client_host
        most = _override(self.configs.text("max.connections.per.ip.overrides"), client)
        if most is None:
            most = self.configs.integer("max.connections.per.ip")
        if self._by_client[node_id, client] >= most:
            logger.info("a connection from %s was refused: max.connections.per.ip is %d for it", client, most)
            protocol.transport.close()
            return False
        if self._served[node_id] >= self.configs.integer("max.connections"):
            protocol.transport.pause_reading()  # uvloop forgets it, so one read may come
            self._in_line.append(protocol)
            return False
        self._serve(protocol)
        return True

    def _serve(self, protocol: C) -> None:
        self._served[protocol.node_id] += 1
        self._by_client[protocol.node_id, protocol.client_host] += 1

    def lost(self, protocol: C, served: bool) -> None:
        """Remove a connection; if it was `served`, the next connection in line takes its place."""
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
        """Reserve the bytes of a large frame. Returns False if the frame has to wait for others; `released` is called later."""
        most = self.configs.integer("queued.max.request.bytes")
        if 0 < most <= self._arriving[protocol.node_id]:
            if protocol not in self._short:
                self._short.append(protocol)
            return False
        self._arriving[protocol.node_id] += size
        return True

    def freed(self, protocol: C, size: int) -> None:
        """Release the bytes of a large frame that has arrived, or whose connection is gone."""
        self._arriving[protocol.node_id] -= size
        waiting, self._short = self._short, deque()
        for each in waiting:
            each.released()

    # Frames that the peer does not read

    def congested(self, protocol: C) -> C | None:
        """Note a connection whose peer does not read. Returns the connection with the most unread bytes if all together leave
        too much unread.
        """
        self._congested.add(protocol)
        if sum(each.unsent for each in self._congested) <= self.most_unread:
            return None
        return max(self._congested, key=lambda each: each.unsent)

    def read(self, protocol: C) -> None:
        """Note that the peer reads again."""
        self._congested.discard(protocol)


def _override(overrides: str, client: str) -> int | None:
    """Returns this client's limit in "host:number,host:number"."""
    for each in overrides.split(","):
        host, _, number = each.strip().rpartition(":")
        if host == client and number.isdigit():
            return int(number)
    return None
