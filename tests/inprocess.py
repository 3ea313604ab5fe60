"""A broker without sockets, for tests of its responses. Clients use its engine directly, and its clock is frozen.

    broker = InProcess(topics={"orders": 2})
    Dialogue(broker) >> seq(0, 2) << accepted(at=0)
    broker.clock.advance(seconds=8)

The broker handles requests in the order in which tests send them, whichever connection they use. It handles each request before
`send` returns, so tests do not wait.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from kafkawire.frames import SIZE_BYTES
from wirebroker.client.wire import CLIENT_ID, Connection, ConnectionClosed, Connections, NoResponse
from wirebroker.deeds.acls import AclDeeds
from wirebroker.deeds.cluster import ClusterDeeds
from wirebroker.deeds.running import RunningDeeds
from wirebroker.deeds.state import StateDeeds
from wirebroker.deeds.topics import TopicDeeds
from wirebroker.engine.engine import Engine
from wirebroker.requests.effects import Close
from wirebroker.testing import operations
from wirebroker.testing.options import BrokerOptions

T = TypeVar("T")


class InProcess(TopicDeeds, AclDeeds, StateDeeds, ClusterDeeds, RunningDeeds):
    """The brokers that a MockKafka with these options would have, but without sockets."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock(self)
        self.engine = BrokerOptions(random_seed=1, **options).new_engine(self.clock.now())
        self._links: list[Link] = []

    def link(self, node: int = 0) -> Link:
        """Opens a connection to one of the brokers."""
        self._links.append(Link(self, sorted(self.engine.cluster.brokers)[node]))
        return self._links[-1]

    def deliver(self) -> None:
        """Passes each response to its connection. The connection then lets the broker handle its next request."""
        while effects := self.engine.take_effects():
            for effect in effects:
                for link in self._links:
                    if link.connection is effect.connection:
                        link.take(effect)

    def records(self, topic: str, partition: int = 0) -> list[Any]:
        """Returns the records of a partition."""
        return list(operations.records(self.engine, topic, partition))

    def _call(self, function: Callable[[Engine], T]) -> T:
        return function(self.engine)

    @property
    def _engine(self) -> Engine:
        return self.engine

    def _perform(self, act: Callable[[], T], *, settles: bool) -> T:
        self.engine.set_time(self.clock.now())
        done = act()
        self.deliver()
        return done


class Clock:
    """The broker's clock. It starts at the machine's time, because batches in tests have the machine's time, too."""

    def __init__(self, broker: InProcess) -> None:
        self._broker, self._now = broker, time.time_ns() // 1_000_000

    def now(self) -> int:
        """Returns the broker's time in ms since the epoch."""
        return self._now

    def advance(self, **parts: float) -> None:
        """Move the clock forward, and run the timers that expire. The arguments are the same as for `timedelta`."""
        self._now += round(timedelta(**parts) / timedelta(milliseconds=1))
        self._broker.engine.tick(self._now)
        self._broker.deliver()


class Link(Connection):
    """A connection to the engine. The broker handles a request only after it has responded to the previous request."""

    def __init__(self, broker: InProcess, node_id: int) -> None:
        self.timeout, self.client_id, self.awaited, self._correlation = 0.0, CLIENT_ID, deque(), 0
        self._broker = broker
        self.connection = broker.engine.connect(node_id, now=broker.clock.now())
        self._arrived: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._closed = False

    def send_bytes(self, raw: bytes) -> None:
        """Let the broker handle the request: now, or after its response to the previous request."""
        if self._closed:
            raise ConnectionClosed("the broker closed the connection")
        self._waiting.append(raw[SIZE_BYTES:])
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self.connection.parked is None and not self._closed:
            frame = memoryview(bytearray(self._waiting.popleft()))
            self._broker.engine.receive(self.connection, frame, self._broker.clock.now())
            self._broker.deliver()

    def take(self, effect: Any) -> None:
        """Stores a response, or closes the connection."""
        if isinstance(effect, Close):
            self._closed = True
        else:
            self._arrived.append(b"".join(map(bytes, effect.parts))[SIZE_BYTES:])
            self._go_on()

    def frame(self, timeout: float | None = None) -> bytes:
        """Returns the next frame. Raises ConnectionClosed, or NoResponse if there is none yet."""
        if self._arrived:
            return self._arrived.popleft()
        if self._closed:
            raise ConnectionClosed("the broker closed the connection")
        raise NoResponse("no response yet")

    def close(self) -> None:
        """Close the connection from the client's side."""
        if not self._closed:
            self._closed = True
            self._broker.engine.disconnected(self.connection, now=self._broker.clock.now())


class Links(Connections):
    """Named connections to a broker."""

    def __init__(self, broker: InProcess, node: int) -> None:
        super().__init__()
        self._broker, self._node = broker, node

    def connect(self, name: str) -> Link:
        """Returns a new connection."""
        return self._broker.link(self._node)
