"""How much of the process clients may take: connections, requests that are still arriving, answers that nobody reads.

The settings are Kafka's: `max.connections`, `max.connections.per.ip` with its overrides, and `queued.max.request.bytes`
(SocketServer's ConnectionQuotas and SimpleMemoryPool). Each broker of a cluster counts for itself. Kafka has no limit for
answers, because it sends them from the page cache; here what a socket does not take is held in memory.
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
    """What the connections of one host have taken."""

    def __init__(self, configs: BrokerConfigs) -> None:
        self.configs = configs
        self._served: Counter[int] = Counter()
        """Connections by broker."""
        self._by_client: Counter[tuple[int, str]] = Counter()
        self._in_line: deque[BrokerProtocol] = deque()
        """Connections that wait until another one of their broker ends."""
        self._arriving: Counter[int] = Counter()
        """Bytes set aside for large requests that are still arriving, by broker."""
        self._short: deque[BrokerProtocol] = deque()
        """Connections whose large request waits for such bytes."""
        self._congested: set[BrokerProtocol] = set()

    # Connections

    def opened(self, protocol: BrokerProtocol) -> bool:
        """A client has connected: whether it is served now. Otherwise it waits for its turn, or is closed."""
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
        """A connection has ended; with `served` it was counted, and the next one in line takes its place."""
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
        """Set aside the bytes of a large request; False if the connection has to wait for others, and is then told."""
        most = self.configs.integer("queued.max.request.bytes")
        if 0 < most <= self._arriving[protocol.node_id]:
            if protocol not in self._short:
                self._short.append(protocol)
            return False
        self._arriving[protocol.node_id] += size
        return True

    def freed(self, protocol: BrokerProtocol, size: int) -> None:
        """A large request has arrived, or never will."""
        self._arriving[protocol.node_id] -= size
        waiting, self._short = self._short, deque()
        for each in waiting:
            each.released()

    # Answers

    def congested(self, protocol: BrokerProtocol) -> BrokerProtocol | None:
        """A client does not read its answers: which connection must end, because all together leave too much unread."""
        self._congested.add(protocol)
        if sum(map(_unread, self._congested)) <= MOST_UNREAD:
            return None
        return max(self._congested, key=_unread)

    def read(self, protocol: BrokerProtocol) -> None:
        """The client reads again."""
        self._congested.discard(protocol)


def _unread(protocol: BrokerProtocol) -> int:
    return protocol.transport.get_write_buffer_size()


def _override(overrides: str, client: str) -> int | None:
    """This client's own limit in "host:number,host:number"."""
    for each in overrides.split(","):
        host, _, number = each.strip().rpartition(":")
        if host == client and number.isdigit():
            return int(number)
    return None
