"""Connections, effects, and one request on its way to its answer: the engine's interface to its host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import EncodeError
from kafkawire.frames import encode_response
from kafkawire.primitives import Buffer

if TYPE_CHECKING:
    from wirebroker.apis.produce_shape import ProduceShape
    from wirebroker.core.cluster import Cluster
    from wirebroker.engine import Engine
    from wirebroker.engine_directory import EngineDirectory
    from wirebroker.faults.strikes import Struck
    from wirebroker.request_gate import Gate


logger = logging.getLogger("wirebroker")


class Connection:
    """One client's connection to one broker, as far as the engine knows it."""

    __slots__ = (
        "client_host", "closed", "gate", "halted", "listener", "node_id", "number", "parked", "produce_shape",
        "silent", "software",
    )  # fmt: skip

    def __init__(self, number: int, node_id: int, client_host: str, listener: str) -> None:
        self.number = number
        self.node_id = node_id
        self.client_host = client_host
        self.listener = listener
        self.software = ("", "")
        self.gate: Gate | None = None
        """Decides about each request before it is decoded; None if all are handled."""
        self.parked: Exchange | None = None
        """The request that waits; nothing else of this connection is handled before it is answered."""
        self.closed = False
        self.halted = False
        """Set where the next request may have to wait: for a parked one, for records that should be sent before more of
        them are made, or because the connection is closed. The driver of the engine checks the reason and clears it."""
        self.silent = False
        """Set when a fault lost an answer: later answers are withheld too, because clients match answers by order."""
        self.produce_shape: ProduceShape | None = None
        """The last Produce request up to its records, for the fast path; see `wirebroker.apis.produce_shape`."""

    def silence(self) -> None:
        """Send no further answer."""
        self.silent = True
        self.produce_shape = None


class Reply(NamedTuple):
    """Send these buffers, in order: one whole response frame."""

    connection: Connection
    parts: list[Buffer]


class Close(NamedTuple):
    """Close the connection after the answers before it are sent; with `reset` at once, by a RST where the system has it.

    `reason` is a sentence for the log.
    """

    connection: Connection
    reason: str
    reset: bool = False


class Shape(NamedTuple):
    """The changes that the network makes to an answer. Bytes are counted from the first byte of its size."""

    cut: int | None = None
    """The number of bytes that arrive; None: all."""
    piece: int | None = None
    """The size of the pieces in which it is sent, each by itself."""
    pause: float = 0.0
    """Seconds between two pieces, by the machine's time."""
    flipped: tuple[int, ...] = ()
    """The positions of bytes that arrive with all their bits turned."""


class Shaped(NamedTuple):
    """Send one whole response frame, changed by faults."""

    connection: Connection
    parts: list[Buffer]
    shape: Shape


Effect = Reply | Close | Shaped


class Outcome(Enum):
    """A handler returns it instead of a response."""

    PARKED = "it will be answered later, by Exchange.reply"
    SILENT = "it is done and has no answer, as a Produce with acks=0"
    CLOSED = "the connection is closed, by Exchange.close"


class Aside(NamedTuple):
    """Pure work that takes long: it reads no state of the broker, so a thread can do it while the loop serves others."""

    work: Callable[[], Any]


Steps = Generator["Aside | None", Any, "Message | Outcome"]
"""A handler that works in slices. It yields None where other connections may have their turn, and an `Aside` where it
needs the result of long work; it returns what a handler returns. Between two slices the broker's state may change, and the
buffer of the request is lost: a handler keeps no view of it (see `own_records`)."""


class Traced(NamedTuple):
    """The request's part of the trace row of its answer."""

    arrived: int
    """ms since the epoch"""
    about: tuple[str, ...]
    """the topics, groups and transactions that it names"""


class Exchange:
    """A request that is being handled. `now` is the time at which it arrived, in ms since the epoch."""

    __slots__ = (
        "api_key", "client_id", "connection", "correlation_id", "delay_ms", "engine", "frame", "now", "request", "struck",
        "traced", "version",
    )  # fmt: skip

    def __init__(
        self, engine: Engine, connection: Connection, api_key: int, version: int, correlation_id: int,
        client_id: str | None, now: int, frame: memoryview | None = None, request: Message | None = None,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.now = now
        self.frame = frame
        self.delay_ms = 0
        """How many ms the answer waits once it is made, because of the connection's gate."""
        self.request = request
        """The request, once it is decoded; its records may lie in a buffer that will receive other requests."""
        self.struck: Struck | None = None
        """The faults that strike the request and its answer."""
        self.traced: Traced | None = None
        """The request's part of the trace row of its answer."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the request reached."""
        return self.engine.cluster

    @property
    def directory(self) -> EngineDirectory:
        """The topics, sessions and offsets that requests refer to."""
        return self.engine.directory

    @property
    def node_id(self) -> int:
        """The broker that the request reached."""
        return self.connection.node_id

    @property
    def alive(self) -> bool:
        """Whether the client still waits for the answer."""
        return not self.connection.closed

    def handle(self, request: Message) -> None:
        """Have the request, or the remaining part of it, answered by its API, now or later."""
        self.engine.handle(request, self)

    def reply(self, response: Message) -> None:
        """Answer a request that was parked, or is being handled; dropped if the client has gone."""
        connection = self.connection
        if connection.parked is self:
            connection.parked = None
        if self.struck is not None:
            left = self.engine.plan.answered(response, self)
            if left is None:
                return
            response = left
        if self.delay_ms:
            from wirebroker.requests.errors import throttle

            throttle(response, self.version, self.delay_ms)
        if not connection.closed and not connection.silent:
            try:
                parts = encode_response(self.correlation_id, response, self.version)
            except EncodeError as wrong:
                self.cannot_say(wrong)
            else:
                self._deliver(response, parts)

    def send(self, response: Message, parts: list[Buffer]) -> None:
        """Send a response in its encoded form; dropped if the client has gone."""
        connection = self.connection
        if connection.parked is self:
            connection.parked = None
        if not connection.closed and not connection.silent:
            self._deliver(response, parts)

    def _deliver(self, response: Message, parts: list[Buffer]) -> None:
        engine = self.engine
        if self.delay_ms:
            self._send_later(response, parts)
            return
        if len(parts) > 1:
            self.connection.halted = True
        if engine.trace.exchanges:
            engine.trace.replied(self, response, sum(map(len, parts)))
        if self.struck is not None and self.struck.wire:
            engine.plan.send(parts, self)
        else:
            engine.effects.append(Reply(self.connection, parts))

    def _send_later(self, response: Message, parts: list[Buffer]) -> None:
        ms, self.delay_ms = self.delay_ms, 0
        self.park()
        self.engine.timers.at(self.engine.now + ms, lambda _: self.send(response, parts))

    def cannot_say(self, wrong: EncodeError) -> None:
        """The answer cannot be encoded in its version: answer with UNKNOWN_SERVER_ERROR, as Kafka does.

        If even that cannot be encoded, because it repeats the name that is too long, Kafka does not answer and the client
        waits; this broker closes the connection.
        """
        from wirebroker.requests.errors import error_answers

        logger.info("connection %d gets UNKNOWN_SERVER_ERROR: %s", self.connection.number, wrong)
        for answer in error_answers(self.request, self) if self.request is not None else ():
            with suppress(EncodeError):
                self.send(answer, encode_response(self.correlation_id, answer, self.version))
                return
        self.close(f"its request cannot be answered: {wrong}")

    def release(self) -> None:
        """Continue with the connection after a parked request that has no answer."""
        if self.connection.parked is self:
            self.connection.parked = None
        self.engine.effects.append(Reply(self.connection, []))

    def answer_by(self, work: Callable[[Callable[[Message], None]], None]) -> Message | Outcome:
        """Do work that answers by the function it is given, now or later. Returns the result of the handler."""
        answers: list[Message] = []
        waiting = False

        def reply(response: Message) -> None:
            if waiting:
                self.reply(response)
            else:
                answers.append(response)

        work(reply)
        waiting = True
        return answers[0] if answers else Outcome.PARKED

    def park(self) -> None:
        """Hold back the next requests of the connection until this one is answered."""
        self.connection.parked = self
        self.connection.halted = True

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of answering. None of its further requests is handled."""
        self.engine.close(self.connection, reason)
        return Outcome.CLOSED
