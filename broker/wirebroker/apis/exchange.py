"""One request from its arrival to its response, and the part of the engine that the request's handler uses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkawire.declare import Message
from kafkawire.errors import EncodeError
from kafkawire.frames import encode_response
from kafkawire.primitives import Buffer
from kafkawire.registry import KEYS, PRODUCE, api_name, response_class
from wirebroker.core.quotas import PRODUCE as PRODUCER_BYTE_RATE
from wirebroker.requests.connection import OPEN, Connection, Muted
from wirebroker.requests.effects import Effect, Outcome, Respond
from wirebroker.requests.exchange import AnyExchange

if TYPE_CHECKING:
    from wirebroker.apis.directory import EngineDirectory
    from wirebroker.core.cluster import Cluster
    from wirebroker.core.controller import Controller
    from wirebroker.core.fetch_sessions import FetchSessions
    from wirebroker.core.groups import GroupCoordinator
    from wirebroker.core.purgatory import Timers
    from wirebroker.core.share.partitions import SharePartitions
    from wirebroker.core.telemetry import Telemetry
    from wirebroker.core.transactions import TransactionCoordinator
    from wirebroker.faults.matches import Matches
    from wirebroker.faults.plan import FaultPlan
    from wirebroker.requests.authentication import Authenticator
    from wirebroker.requests.authorizer import Authorizer
    from wirebroker.requests.throttling import Exceeded, Mutations, Throttle
    from wirebroker.security.principals import Principal
    from wirebroker.storage.store import FolderStore
    from wirebroker.trace.broker import BrokerRecorder
    from wirebroker.trace.recorder import Traced

logger = logging.getLogger("wirebroker")


class Offload(NamedTuple):
    """Long work that reads no state of the broker, so a thread can do it while the loop handles other clients."""

    work: Callable[[], Any]


UNMETERED = frozenset({KEYS["WriteTxnMarkers"]})
"""The APIs whose requests no quota counts."""
Steps = Generator["Offload | None", Any, "Message | Outcome"]
"""A handler that works in slices.

The handler yields None to let other connections have their turn, and an `Offload` to get the result of long work. At the end
the handler returns the response or an `Outcome`, as an ordinary handler does. Between two slices the broker's state may change,
and the buffer of the request may be reused: a handler keeps no view of the buffer (see `own_records`).
"""


class Admitted(Protocol):
    """The parts of a request that the client is not authorized for."""

    def joined(self, response: Message) -> Steps:
        """Completes the response to the allowed part of the request, and removes resources that the client may not see."""


class EngineParts(Protocol):
    """The part of the engine that handlers use."""

    cluster: Cluster
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    controller: Controller
    fetch_sessions: FetchSessions
    shares: SharePartitions
    directory: EngineDirectory
    authenticator: Authenticator
    authorizer: Authorizer
    throttle: Throttle
    telemetry: Telemetry
    store: FolderStore | None
    trace: BrokerRecorder
    timers: Timers
    effects: list[Effect]

    @property
    def now(self) -> int:
        """The engine's current time in ms since the epoch."""

    @property
    def plan(self) -> FaultPlan:
        """The fault rules."""

    def handle(self, request: Message, exchange: Exchange) -> None:
        """Let the API of the request respond, now or later."""

    def go_on(self, exchange: Exchange, steps: Steps) -> None:
        """Respond to a parked request, now or in slices."""

    def alter_features(self, levels: Mapping[str, int]) -> None:
        """Change the levels of features."""

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Called after a topic was deleted. If the topic was a coordinator's topic, forget the coordinator's records. Otherwise
        forget the offsets that groups committed for the topic (`groups.forget_topics`).
        """

    def close(self, connection: Connection, reason: str) -> None:
        """Close the connection, and log `reason`, a clause such as "its request cannot be answered"."""

    def unauthenticated(self, exchange: Exchange, response: Message | None, cause: str) -> Outcome:
        """Send the response, if there is one, and close the connection after connection.failed.authentication.delay.ms."""


class Exchange(AnyExchange):
    """A request that the engine handles."""

    __slots__ = (
        "abandon", "access", "delay_ms", "ends_by", "engine", "matches", "request", "size", "throttle_ms", "traced",
    )  # fmt: skip

    def __init__(
        self, engine: EngineParts, connection: Connection, api_key: int, version: int, correlation_id: int,
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
        """The time in ms by which the connection's interceptor delays the finished response."""
        self.ends_by = ""
        """The reason why the connection is closed after the response, or "" if it stays open."""
        self.size = 0
        """The size of the request in bytes, or 0 if there are no quotas."""
        self.throttle_ms: int | None = None
        """A quota throttles the client for this many ms after the response. None before the quotas are applied."""
        self.request = request
        """The decoded request. Its records may lie in a buffer that later requests overwrite."""
        self.matches: Matches | None = None
        """The faults that match the request and its response."""
        self.access: Admitted | None = None
        """The parts of the request that the authorizer has refused; None without an authorizer."""
        self.abandon: Callable[[], None] | None = None
        """Ends the wait of a parked request whose client has disconnected. A waiting request sets this function, and removes
        the function when the wait ends in another way."""
        self.traced: Traced | None = None
        """The fields that the request adds to the trace row of its response."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the request reached."""
        return self.engine.cluster

    @property
    def directory(self) -> EngineDirectory:
        """The topics, sessions and offsets that requests refer to."""
        return self.engine.directory

    @property
    def principal(self) -> Principal:
        """The client's principal."""
        return self.connection.session.principal

    def handle(self, request: Message) -> None:
        """Let the API respond to the request, now or later. If an authorizer refused parts of the request, `request` is the
        remaining part."""
        self.engine.handle(request, self)

    def refused(self, code: int, message: str | None = None) -> Message:
        """Returns a response that has only this error. Its other fields have their defaults: empty, zero or null."""
        made: Any = response_class(self.api_key)
        response: Message = made(error_code=code) if message is None else made(error_code=code, error_message=message)
        return response

    def respond(self, response: Message) -> None:
        """Respond to a request that is parked or in progress. The response is dropped if the client has disconnected."""
        if (access := self.access) is not None:
            self.access = None
            self.engine.go_on(self, access.joined(response))
            return
        passed = self.passed(response)
        if passed is not None:
            try:
                parts = encode_response(self.correlation_id, passed, self.version)
            except EncodeError as wrong:
                self.cannot_say(wrong)
            else:
                self._deliver(passed, parts)

    def passed(self, response: Message) -> Message | None:
        """Returns the response after faults and the interceptor, or None if the response is not sent now. Afterwards the
        request is not parked any more."""
        connection = self.connection
        if connection.parked is self:  # the same as `unpark`, without a call
            connection.parked = None
        if self.matches is not None:
            left = self.engine.plan.on_response(response, self)
            if left is None:
                self._go_on()
                return None
            response = left
        if self.throttle_ms is None and self.engine.cluster.quotas.on:
            self._measure()
        if wait := self.delay_ms or self.throttle_ms:
            from wirebroker.requests.errors import throttle

            throttle(response, self.version, wait)
        if connection.state is OPEN:
            return response
        self._go_on()
        return None

    def _go_on(self) -> None:
        """Send no response, but let the host handle the connection's next request."""
        if self.alive:
            self.engine.effects.append(Respond(self.connection, []))

    def _measure(self) -> None:
        """Count the request for the client's quotas, because its response is ready."""
        throttle, now = self.engine.throttle, self.engine.now
        produced = throttle.use(self, PRODUCER_BYTE_RATE, self.size, now) if self.api_key == PRODUCE else None
        self.throttled(produced, None if self.api_key in UNMETERED else throttle.handled(self, now))

    def throttled(self, *exceeded: Exceeded | None) -> int:
        """Let the client wait after its response for as long as these quotas require. Returns this time in ms."""
        worst = max((each for each in exceeded if each is not None), default=None)
        self.throttle_ms = 0 if worst is None else worst.ms
        if worst is not None:
            self.engine.throttle.note(self.connection, self.client_id, api_name(self.api_key), *worst)
        return self.throttle_ms

    def throttled_by(self, mutations: Mutations) -> None:
        """After a request that changed topics, throttle the client if the changes exceeded this quota."""
        exceeded = mutations.exceeded(self.engine.now)
        if exceeded is not None:
            self.throttled(exceeded, self.engine.throttle.handled(self, self.engine.now))

    def name_endpoint(self, node_id: int, endpoints: list[Any], made: Callable[..., Any]) -> None:
        """Add the address of a broker, such as a new leader, to the endpoints of a response (KIP-951)."""
        broker = self.cluster.brokers.get(node_id)
        if broker is not None and all(known.node_id != node_id for known in endpoints):
            host, port = broker.address(self.connection.listener)
            endpoints.append(made(node_id=node_id, host=host, port=port, rack=broker.rack))

    def mute(self, ms: int) -> None:
        """Handle no further request of the connection for this many ms (KIP-219)."""
        connection, engine = self.connection, self.engine

        def end(_: int) -> None:
            connection.parked = None
            self._go_on()

        connection.parked = Muted(engine.timers.at(engine.now + ms, end))
        connection.halted = True

    def send(self, response: Message, parts: list[Buffer]) -> None:
        """Send an encoded response, or drop it if the client has disconnected."""
        self.unpark()
        if self.responds:
            self._deliver(response, parts)
        else:
            self._go_on()

    def _deliver(self, response: Message, parts: list[Buffer]) -> None:
        engine = self.engine
        if self.delay_ms:
            self._send_later(response, parts)
            return
        if len(parts) > 1:
            self.connection.halted = True
        if engine.trace.exchanges:
            engine.trace.replied(self, response, parts)
        if self.matches is not None and self.matches.wire:
            engine.plan.send(parts, self)
        else:
            engine.effects.append(Respond(self.connection, parts))
        if self.throttle_ms:
            self.mute(self.throttle_ms)
        if self.ends_by:
            self.close(self.ends_by)

    def _send_later(self, response: Message, parts: list[Buffer]) -> None:
        ms, self.delay_ms = self.delay_ms, 0
        self.park()
        self.engine.timers.at(self.engine.now + ms, lambda _: self.send(response, parts))

    def cannot_say(self, wrong: EncodeError) -> None:
        """Respond with UNKNOWN_SERVER_ERROR, as Kafka does, because the response cannot be encoded in its version, or because a
        text in the request cannot be stored.

        If a long name is the reason, an error response that repeats the name cannot be encoded, either. Kafka then sends no
        response, and the client waits; this broker closes the connection.
        """
        from wirebroker.requests.errors import error_responses

        logger.info("connection %d gets UNKNOWN_SERVER_ERROR: %s", self.connection.number, wrong)
        for response in error_responses(self.request, self) if self.request is not None else ():
            with suppress(EncodeError):
                self.send(response, encode_response(self.correlation_id, response, self.version))
                return
        self.close(f"its request cannot be answered: {wrong}")

    def left(self) -> None:
        """Remember that the client has disconnected: the request does not wait any longer, and no fault rule may match its
        response."""
        self.access = None
        self.stop_waiting()
        if self.matches is not None:
            self.engine.plan.left(self)

    def stop_waiting(self) -> None:
        """End the request's wait, if there is one, without a response."""
        if (abandon := self.abandon) is not None:
            self.abandon = None
            abandon()

    def release(self) -> None:
        """Let the connection go on with its next request, because the parked request gets no response."""
        self.access = None
        self.unpark()
        self._go_on()

    def respond_by(self, work: Callable[[Callable[[Message], None]], Generator[None, Any, None] | None]) -> Steps:
        """Do the work of a request, if necessary in slices. `work` gets a function, and calls it with the response, now or
        later."""
        responses: list[Message] = []
        waiting = False

        def respond(response: Message) -> None:
            if waiting:
                self.respond(response)
            else:
                responses.append(response)

        slices = work(respond)
        if slices is not None:
            yield from slices
        waiting = True
        return responses[0] if responses else Outcome.PARKED

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of responding. No further request of the connection is handled."""
        self.access = None
        self.engine.close(self.connection, reason)
        return Outcome.CLOSED
