"""TLS handshakes at one listener: what faults make of them, and failures in the trace."""

from __future__ import annotations

import ssl
from asyncio import AbstractEventLoop
from asyncio.sslproto import SSLProtocol
from collections import deque
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

from wirebroker.connection import Connection
from wirebroker.faults.strikes import Greeting
from wirebroker.net.protocol import SLICE
from wirebroker.net.tls import Handshake, Tls
from wirebroker.security.session import Session

if TYPE_CHECKING:
    from wirebroker.net.host import Host
    from wirebroker.net.listener import Listener

NUMBER = 0
"""The number in the trace of a connection that is not made yet."""


class HandshakeTurns:
    """Gives handshakes a slice of each turn of the loop. Each takes a millisecond, and thousands may begin at once."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Handshake, SSLProtocol]] = deque()
        self._until = 0.0
        """When the slice of this turn ends, by `perf_counter`."""
        self._scheduled = False

    def begin(self, handshake: Handshake, driver: SSLProtocol) -> None:
        """Let a handshake that begins wait if this turn's slice is used up."""
        if not self._scheduled:
            self._begin_turn()
        elif self._waiting or perf_counter() > self._until:
            handshake.held = True
            self._waiting.append((handshake, driver))

    def _begin_turn(self) -> None:
        self._until = perf_counter() + SLICE
        self._scheduled = True
        self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        if self._waiting:
            self._begin_turn()
        while self._waiting and perf_counter() < self._until:
            handshake, driver = self._waiting.popleft()
            handshake.held = False
            driver.buffer_updated(0)


class Handshakes:
    """Watches the handshakes of a host's listener."""

    def __init__(self, host: Host, listener: Listener, tls: Tls) -> None:
        self._host, self._listener, self._tls = host, listener, tls

    def began(self, handshake: Handshake, driver: object) -> None:
        """A handshake begins: let faults strike it, and let it wait for its turn. Neither is possible with uvloop."""
        driven = driver if isinstance(driver, SSLProtocol) else None
        plan = self._host.engine.faults
        if plan is not None:
            greeting = Greeting(self._listener.name, self._host.clock.now(), self._tls.expire is not None, driven is not None)
            plan.greet(self._connection(), greeting)
            if greeting.expired:
                handshake.context = self._expired
            if greeting.stalled_by is not None and driven is not None:
                self._stall(handshake, driven, greeting)
            self._host.changed()
        if driven is not None and not handshake.held:
            self._host.handshake_turns.begin(handshake, driven)

    def failed(self, cause: str) -> None:
        """Note in the trace that a handshake failed."""
        connection = self._connection()
        connection.session.asked = "SSL"
        self._host.engine.set_time(self._host.clock.now())
        self._host.engine.trace.authenticated(connection, "failed", cause)
        self._host.changed()

    def _stall(self, handshake: Handshake, driver: SSLProtocol, greeting: Greeting) -> None:
        """Hold it until its time, or until the rule is unloaded."""
        handshake.held = True

        def go_on(now: int = 0) -> None:
            if handshake.held:
                handshake.held = False
                self._host.loop.call_soon(driver.buffer_updated, 0)

        engine = self._host.engine
        if greeting.until is not None:
            engine.timers.at(greeting.until, go_on)
        if greeting.stalled_by is not None:
            engine.plan.at_unload(greeting.stalled_by, go_on)

    def _connection(self) -> Connection:
        return Connection(NUMBER, self._listener.node_id, "", Session(self._listener.name, self._listener.protocol))

    @cached_property
    def _expired(self) -> ssl.SSLContext:
        """The context with the expired certificate, which is made now."""
        assert self._tls.expire is not None
        expired = replace(self._tls, certificate=self._tls.expire(), key=None)
        return expired.context(self._listener.name, self._listener.protocol)
