"""Applies fault rules to the TLS handshakes at one listener, and traces failed handshakes."""

from __future__ import annotations

import ssl
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from wirebroker.faults.acts import Greeting
from wirebroker.net.tls import Tls
from wirebroker.net.tls_transport import HandshakeTurns, TlsTransport
from wirebroker.requests.connection import Connection
from wirebroker.security.session import Session

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from wirebroker.engine.engine import Engine
    from wirebroker.net.clock import Clock
    from wirebroker.net.listener import Listener

NUMBER = 0
"""A connection has this number in the trace until its handshake is complete."""


class Server(Protocol):
    """The part of the host that `Handshakes` uses."""

    engine: Engine
    clock: Clock
    loop: AbstractEventLoop

    def changed(self) -> None:
        """Perform the effects of a change that no request caused, and call the watchers."""


class Handshakes:
    """Watches the TLS handshakes at one listener of a host."""

    def __init__(self, host: Server, listener: Listener, tls: Tls, turns: HandshakeTurns) -> None:
        self._host, self._listener, self._tls, self._turns = host, listener, tls, turns

    def began(self, transport: TlsTransport) -> None:
        """Apply the fault rules to a handshake that begins."""
        plan = self._host.engine.faults
        if plan is None:
            return
        greeting = Greeting(self._listener.name, self._host.clock.now(), self._tls.expire is not None)
        plan.greet(self._connection(), greeting)
        if greeting.expired:
            transport.context = self._expired
        if greeting.stalled_by is not None:
            self._stall(transport, greeting)
        self._host.changed()

    def failed(self, client_host: str, cause: str) -> None:
        """Note in the trace that a handshake failed."""
        connection = self._connection(client_host)
        connection.session.asked = "SSL"
        self._host.engine.set_time(self._host.clock.now())
        self._host.engine.trace.authenticated(connection, "failed", cause)
        self._host.changed()

    def _stall(self, transport: TlsTransport, greeting: Greeting) -> None:
        """Stop the handshake until the rule's time is over, or the rule is unloaded."""
        transport.held_by = greeting.stalled_by
        engine, loop = self._host.engine, self._host.loop
        if greeting.until is not None:
            engine.timers.at(greeting.until, lambda _: loop.call_soon(transport.go_on))
        if greeting.stalled_by is not None:
            engine.plan.at_unload(greeting.stalled_by, self._turns.go_on)

    def _connection(self, client_host: str = "") -> Connection:
        return Connection(NUMBER, self._listener.node_id, client_host, Session(self._listener.name, self._listener.protocol))

    @cached_property
    def _expired(self) -> ssl.SSLContext:
        """Creates an expired certificate, and returns a TLS context with this certificate."""
        assert self._tls.expire is not None
        expired = replace(self._tls, certificate=self._tls.expire(), key=None)
        return expired.context(self._listener.protocol)
