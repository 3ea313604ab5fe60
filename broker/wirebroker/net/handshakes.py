"""TLS handshakes at one listener: what faults make of them, and failures in the trace."""

from __future__ import annotations

import ssl
from asyncio.sslproto import SSLProtocol
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from wirebroker.connection import Connection
from wirebroker.faults.strikes import Greeting
from wirebroker.net.tls import Handshake, Tls
from wirebroker.security.session import Session

if TYPE_CHECKING:
    from wirebroker.net.host import Host
    from wirebroker.net.listener import Listener

NUMBER = 0
"""The number in the trace of a connection that is not made yet."""


class Handshakes:
    """Watches the handshakes of a host's listener."""

    def __init__(self, host: Host, listener: Listener, tls: Tls) -> None:
        self._host, self._listener, self._tls = host, listener, tls

    def began(self, handshake: Handshake, driver: object) -> None:
        """A handshake begins: let faults strike it. One that stalls goes on at its time, or when the rule is unloaded."""
        plan = self._host.engine.faults
        if plan is None:
            return
        can_expire, can_stall = self._tls.expired is not None, isinstance(driver, SSLProtocol)
        greeting = Greeting(self._listener.name, self._host.clock.now(), can_expire, can_stall)
        plan.greet(self._connection(), greeting)
        if greeting.expired:
            handshake.context = self._expired
        if greeting.stalled_by is not None and isinstance(driver, SSLProtocol):
            self._stall(handshake, driver, greeting)
        self._host.changed()

    def failed(self, cause: str) -> None:
        """Note in the trace that a handshake failed."""
        connection = self._connection()
        connection.session.asked = "SSL"
        self._host.engine.set_time(self._host.clock.now())
        self._host.engine.trace.authenticated(connection, "failed", cause)
        self._host.changed()

    def _stall(self, handshake: Handshake, driver: SSLProtocol, greeting: Greeting) -> None:
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
        """The context with the expired certificate."""
        expired = replace(self._tls, certificate=self._tls.expired or "", key=None)
        return expired.context(self._listener.name, self._listener.protocol)
