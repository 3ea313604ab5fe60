"""A simulated world without sockets and real time: an engine, clients, and a network. The seed determines the network's
failures.

Every event is on a heap, and virtual time jumps from event to event. So a schedule takes only the time that the engine needs to
handle its requests. A link delivers frames in order, with random delays. After a link is cut, some requests in flight still
arrive, but no response does.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from kafkawire.declare import Message
from kafkawire.frames import decode_response, encode_request
from wirebroker.core.profile import Rules
from wirebroker.engine.engine import Engine
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import Close, Respond

START = 1_800_000_000_000
PARTITIONS = 2
TOPIC = "orders"
SETTINGS = {"auto.create.topics.enable": "false", "replica.lag.time.max.ms": "150"}


class Violation(AssertionError):
    """A violated condition."""


OnResponse = Callable[[Any], None]
OnCut = Callable[[], None]


class Link:
    """A client's connection. Requests and responses arrive in order. If the connection is lost, `on_cut` is called."""

    def __init__(self, world: World, on_cut: OnCut, node: int = 1) -> None:
        self.world = world
        self.node = node
        self.connection: Connection = world.engine.connect(node)
        self.open = True
        self._on_cut = on_cut
        self._correlation = 0
        self._awaited: deque[tuple[int, int, int, OnResponse]] = deque()
        self._arrived: deque[bytes] = deque()
        self._under_way = 0
        self._last_arrival = self._last_response = world.now
        world.links[self.connection] = self

    def send(self, request: Message, version: int, on_response: OnResponse) -> None:
        """Sends a request. `on_response` is called when the response arrives. This may never happen."""
        self._correlation += 1
        frame = encode_request(self._correlation, "simulated", request, version)[4:]
        self._awaited.append((self._correlation, request.__schema__.key, version, on_response))
        self._last_arrival = max(self._last_arrival, self.world.now + self.world.delay())
        self._under_way += 1
        self.world.at(self._last_arrival, lambda: self._arrive(frame))

    def _arrive(self, frame: bytes) -> None:
        if self._under_way <= 0:
            return  # the frame was lost with the connection
        self._under_way -= 1
        if self.connection.state is not CLOSED:
            self._arrived.append(frame)
            self.deliver()

    def deliver(self) -> None:
        """Pass the received frames to the engine, one request at a time."""
        while self._arrived and self.connection.parked is None and self.connection.state is not CLOSED:
            frame = self._arrived.popleft()
            self.world.engine.receive(self.connection, memoryview(frame), self.world.now)
            self.world.perform()

    def response(self, raw: bytes) -> None:
        """Schedules the arrival of the engine's response at the client."""
        self._last_response = max(self._last_response, self.world.now + self.world.delay())
        self.world.at(self._last_response, lambda: self._answered(raw))

    def _answered(self, raw: bytes) -> None:
        if not self.open:
            return
        correlation, key, version, on_response = self._awaited.popleft()
        found, message = decode_response(raw[4:], key, version)
        if found != correlation:
            raise Violation(f"response {found} came instead of {correlation}")
        on_response(message)

    def cut(self) -> None:
        """Loses the connection. Some requests in flight still arrive, but no response does."""
        if not self.open:
            return
        self.open = False
        lost = self.world.random.randint(0, self._under_way)
        self._under_way -= lost
        self.world.at(self._last_arrival, self._end)
        self.world.at(self.world.now + self.world.delay(), self._on_cut)

    def leave(self) -> None:
        """Closes the connection as the client does."""
        self.open = False
        self._under_way = 0
        self._end()

    def closed_by_broker(self) -> None:
        """Ends the client's side of a connection that the broker has closed. The client notices the end after a delay."""
        if self.open:
            self.open = False
            self._under_way = 0
            self.world.at(self.world.now + self.world.delay(), self._on_cut)

    def _end(self) -> None:
        self.world.engine.disconnected(self.connection)
        self.world.links.pop(self.connection, None)


class World:
    """The engine, the network and the virtual time. Everything random depends on the seed."""

    def __init__(self, seed: int, *, rules: Rules | None = None, slowest: int = 40, brokers: int = 1) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = START
        self.links: dict[Connection, Link] = {}
        self.log: list[str] = []
        self._slowest = slowest
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self.engine = Engine(
            self.now, random.Random(seed).randbytes, settings=SETTINGS, rules=rules, cold_start=False, brokers=brokers
        )
        self.engine.cluster.create_topic(TOPIC, self.now, partitions=PARTITIONS, replication_factor=brokers)
        self.steps = 0

    def delay(self) -> int:
        """Returns a random duration in ms. Most durations are short."""
        return self.random.randint(0, self._slowest if self.random.random() < 0.1 else 3)

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Schedules an event for the time `when`."""
        heapq.heappush(self._heap, (when, next(self._order), action))

    def soon(self, action: Callable[[], None], within: int = 10) -> None:
        """Schedules an event after a delay."""
        self.at(self.now + self.random.randint(0, within), action)

    def say(self, text: str) -> None:
        """Add an event to the log, which is printed if the schedule fails."""
        self.log.append(f"{self.now - START:>7} {text}")

    def perform(self) -> None:
        """Deliver the responses that the engine sends, and close the connections that it closes."""
        for effect in self.engine.take_effects():
            link = self.links.get(effect.connection)
            if link is None:
                continue
            if isinstance(effect, Respond):
                link.response(b"".join(effect.parts))
            elif isinstance(effect, Close):
                link.closed_by_broker()

    def run(self, until: Callable[[], bool], most: int) -> bool:
        """Runs at most `most` events, until the condition holds. Returns true if the condition holds."""
        for _ in range(most):
            if until():
                return True
            deadline = self.engine.deadline()
            if not self._heap or (deadline is not None and deadline <= self._heap[0][0] and deadline > self.now):
                if deadline is None:
                    return until()
                self.now = max(self.now, deadline)
                self._tick()
                continue
            when, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, when)
            self.steps += 1
            action()
            self._tick()
        return until()

    def _tick(self) -> None:
        self.engine.tick(self.now)
        self.perform()
        for link in list(self.links.values()):
            link.deliver()

    def kill(self, node: int) -> None:
        """Kill a broker. Its connections are lost."""
        self.say(f"broker {node} is killed")
        self.engine.kill_broker(node, self.now)
        self.perform()

    def restart(self, mode: str) -> None:
        """Restart the broker. All connections are lost."""
        self.say(f"restart ({mode})")
        self.engine.restart(mode, self.now)
        self.perform()
        self.links.clear()
