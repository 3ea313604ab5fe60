"""Limits for clients: connections, memory for arriving requests, memory for unread answers.

The settings are Kafka's: `max.connections`, `max.connections.per.ip` with its overrides, and `queued.max.request.bytes`
(SocketServer's ConnectionQuotas and SimpleMemoryPool). Each broker of a cluster counts for itself. Kafka has no limit for
answers, because it sends them from the page cache; here the unsent part is in memory.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirebroker.core.configs import BrokerConfigs
    from wirebroker.net.protocol import BrokerProtocol

logger = logging.getLogger("wirebroker")

MOST_UNREAD = 1 << 30
"""Bytes of answers that all clients together may leave unread."""


class Limits:
    """Counts the connections of one host and their memory."""

    def __init__(self, configs: BrokerConfigs) -> None:
        self.configs = configs
        self._served: Counter[int] = Counter()
        """Connections by broker."""
        self._by_client: Counter[tuple[int, str]] = Counter()
        self._in_line: deque[BrokerProtocol] = deque()
        """Connections that wait until another connection of their broker ends."""
        self._arriving: Counter[int] = Counter()
        """Bytes reserved for large requests that are still arriving, by broker."""
        self._short: deque[BrokerProtocol] = deque()
        """Connections whose large request waits for a reservation."""
        self._congested: set[BrokerProtocol] = set()

    # Connections

    def opened(self, protocol: BrokerProtocol) -> bool:
        """Count a new connection. False if it is not served now: it waits in line, or is closed."""
        node_id, client = protocol.node_id, protocol.client_host
        most = _override(self.configs.text("max.connections.per.ip.overrides"), client)
        if most is None:
            most = self.configs.integer("max.connections.per.ip")
        if self._by_client[node_id, client] >= most:
            logger.info("a connection from %s was refused: max.connections.per.ip is %d for it", client, most)
            protocol.transport.close()
            return False
        if self._served[node_id] >= self.configs.integer("max.connections"):
            protocol.transport.pause_reading()
            self._in_line.append(protocol)
            return False
        self._serve(protocol)
        return True

    def _serve(self, protocol: BrokerProtocol) -> None:
        self._served[protocol.node_id] += 1
        self._by_client[protocol.node_id, protocol.client_host] += 1

    def lost(self, protocol: BrokerProtocol, served: bool) -> None:
        """Remove a connection; if it was `served`, the next one in line takes its place."""
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

    def close(self) -> None:
        """Close the connections that wait in line."""
        while self._in_line:
            self._in_line.popleft().transport.abort()

    # Requests

    def takes(self, protocol: BrokerProtocol, size: int) -> bool:
        """Reserve the bytes of a large request. False if it has to wait for others; `released` is then called."""
        most = self.configs.integer("queued.max.request.bytes")
        if 0 < most <= self._arriving[protocol.node_id]:
            if protocol not in self._short:
                self._short.append(protocol)
            return False
        self._arriving[protocol.node_id] += size
        return True

    def freed(self, protocol: BrokerProtocol, size: int) -> None:
        """Release the bytes of a large request that has arrived, or whose connection is gone."""
        self._arriving[protocol.node_id] -= size
        waiting, self._short = self._short, deque()
        for each in waiting:
            each.released()

    # Answers

    def congested(self, protocol: BrokerProtocol) -> BrokerProtocol | None:
        """Note a client that does not read its answers. Returns the worst connection if all together leave too much unread."""
        self._congested.add(protocol)
        if sum(map(_unread, self._congested)) <= MOST_UNREAD:
            return None
        return max(self._congested, key=_unread)

    def read(self, protocol: BrokerProtocol) -> None:
        """Note that the client reads again."""
        self._congested.discard(protocol)


def _unread(protocol: BrokerProtocol) -> int:
    return protocol.transport.get_write_buffer_size()


def _override(overrides: str, client: str) -> int | None:
    """This client's limit in "host:number,host:number"."""
    for each in overrides.split(","):
        host, _, number = each.strip().rpartition(":")
        if host == client and number.isdigit():
            return int(number)
    return None
