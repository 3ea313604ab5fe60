"""One request on its way through the proxy, from its client to the broker and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkawire.declare import Message
from kafkawire.errors import EncodeError
from kafkawire.frames import SIZE_BYTES, encode_request, encode_response
from kafkawire.primitives import Buffer
from kafkawire.registry import api_name
from wirebroker.requests.connection import OPEN, Connection
from wirebroker.requests.effects import Effect, Outcome, Respond
from wirebroker.requests.exchange import AnyExchange
from wirebroker.trace.recorder import UNMEASURED, Stages, Traced, errors_in

if TYPE_CHECKING:
    from kafkawire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
    from wirebroker.faults.matches import Matches
    from wirebroker.faults.plan import FaultPlan
    from wirebroker.proxy.addresses import Locate
    from wirebroker.proxy.directory import LearnedDirectory
    from wirebroker.proxy.logins import Logins
    from wirebroker.proxy.metrics import Metrics
    from wirebroker.proxy.passing import Passing
    from wirebroker.trace.recorder import Recorder


class Forward(NamedTuple):
    """The effect that sends these bytes to the broker."""

    connection: Connection
    data: Buffer


class Mutes:
    """The periods in which a broker does not read from a connection, because the client has exceeded a quota (KIP-219)."""

    def __init__(self) -> None:
        self._before = 0
        """The total length in ms of all periods except the last period."""
        self._begin = self._end = 0

    def add(self, now: int, ms: int) -> None:
        """Remember that the broker does not read from the connection for the next `ms` milliseconds."""
        if now >= self._end:
            self._before += self._end - self._begin
            self._begin = now
        self._end = max(now + ms, self._end)

    def until(self, now: int) -> int:
        """Returns the total length in ms of all periods up to now."""
        return self._before + min(max(now, self._begin), self._end) - self._begin


class ProxyParts(Protocol):
    """The part of the proxy that relays and exchanges use."""

    locate: Locate
    """The function that returns the proxy's address for a node."""
    asks: bool
    """Tells whether the proxy may send requests of its own to the brokers."""
    frame_limit: int
    strangers_limit: int
    """Before a client is authenticated, the proxy buffers no request that is larger than this size in bytes."""
    directory: LearnedDirectory
    logins: Logins
    passing: Passing
    """The transactions and groups in forwarded requests."""
    plan: FaultPlan
    faults: FaultPlan | None
    """The fault plan if it has any rule, otherwise None."""
    moment: Callable[[], int]
    """A clock in µs."""
    metrics: Metrics | None
    """The metrics of forwarded exchanges, or None if no client has read the metrics recently."""
    effects: list[Effect | Forward]

    @property
    def trace(self) -> Recorder:
        """The recorder of exchanges and verdicts."""

    @property
    def now(self) -> int:
        """The time of the latest event, in ms since the epoch."""

    @property
    def measures(self) -> bool:
        """Tells whether the times of exchanges are measured."""

    def set_time(self, now: int) -> None:
        """Set the current time, in ms since the epoch."""

    def emit(self, effect: Effect) -> None:
        """Add an effect, which sends a response or closes a connection, to the effects that are queued already."""

    def forward(self, connection: Connection, data: Buffer) -> None:
        """Send these bytes to the broker."""

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        """Close a client's connection and the connection to the broker. `reason` is for the log."""

    def oversized(self, first: bytes, size: int) -> str:
        """Returns the message about a request with an impossible size."""

    def looks_at(self, key: int, version: int) -> bool:
        """Tells whether requests of this API in this version are decoded."""

    def learned(self, response: Message) -> None:
        """Learn names and leaders from a response."""

    def observe(self, exchange: ForwardedExchange, response: Message) -> None:
        """Learn from a response, and trace shadow verdicts."""

    def question(self, exchange: ForwardedExchange) -> DescribeProducersRequest | None:
        """Returns the request to send before this Produce, in order to ask the broker about producers. Returns None if no such
        request is necessary."""

    def described(self, response: DescribeProducersResponse) -> None:
        """Called with the broker's response to the request that `question` has returned."""

    def unanswered(self, exchange: ForwardedExchange) -> None:
        """Called if the response is lost, although the broker may have handled the request."""


class Passage(Protocol):
    """The part of a relay that an exchange uses."""

    proxy: ProxyParts
    connection: Connection
    mutes: Mutes
    """The periods during which the broker does not read from the connection because of a quota."""

    def forward(self, whole: memoryview, exchange: ForwardedExchange) -> None:
        """Send a request to the broker. `whole` includes the size field."""

    def awaits(self, exchange: ForwardedExchange) -> bool:
        """Tells whether the broker still has to send the response to this request."""


class ForwardedExchange(AnyExchange):
    """A request that the relay has decoded."""

    __slots__ = ("matches", "moments", "relay", "request", "traced", "whole")

    def __init__(
        self, relay: Passage, api_key: int, version: int, correlation_id: int, client_id: str | None, now: int,
        request: Message, whole: memoryview,
    ) -> None:  # fmt: skip
        self.relay = relay
        self.connection = relay.connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.now = now
        self.request = request
        self.whole = whole
        """The bytes of the request as they arrived, including the size field."""
        self.frame = whole[SIZE_BYTES:]
        self.matches: Matches | None = None
        """The fault rules that match the request and its response."""
        self.moments: list[int] | None = None
        """The moments, in µs, at which the request arrived, the request was forwarded, the response began, and the response
        ended. None if times are not measured.
        """
        self.traced: Traced | None = None
        """The facts about the request that the trace needs for the row of the response."""

    @property
    def directory(self) -> LearnedDirectory:
        """The names that the proxy has learned."""
        return self.relay.proxy.directory

    @property
    def acts_on_response(self) -> bool:
        """Tells whether a fault will act on the response."""
        matches = self.matches
        return matches is not None and bool(matches.after or matches.wire or matches.overwrites or matches.refused)

    def handle(self, request: Message) -> None:
        """Send the request to the broker. If faults have refused a part of the original request, `request` is the remaining
        part."""
        if request is self.request:
            self.relay.forward(self.whole, self)
        else:
            self.request = request
            changed = encode_request(self.correlation_id, self.client_id, request, self.version)
            self.relay.forward(memoryview(changed), self)
        if self.matches is not None and self.acts_on_response and self.relay.awaits(self):
            self.park()

    def note_moment(self, index: int) -> None:
        """If times are measured, add the current time to `moments`, unless the moment with this index is noted already."""
        if self.moments is not None and len(self.moments) == index:
            self.moments.append(self.relay.proxy.moment())

    @property
    def stages(self) -> Stages:
        """The three parts of the exchange's time, in µs: in the proxy, waiting for the broker's response, and receiving this
        response. UNMEASURED if times were not measured.
        """
        if self.moments is None or len(self.moments) < 4 or not self.moments[0]:
            return UNMEASURED
        received, forwarded, begun, whole = self.moments
        held = forwarded - received + self.relay.proxy.moment() - whole
        return held, begun - forwarded, whole - begun

    @property
    def sender(self) -> tuple[str, str | None, str]:
        """The API, the client id and the principal."""
        return api_name(self.api_key), self.client_id, str(self.connection.session.principal)

    def answered(self, response: Message, parts: list[Buffer]) -> None:
        """Pass the broker's response on to the client. `parts` is the encoded response, which is sent unless faults change the
        response."""
        if self.matches is not None and self.acts_on_response:
            self.respond(response)
        else:
            self._send(response, parts)

    def respond(self, response: Message) -> None:
        """Let the faults act on the response, and send it. If the client has disconnected, the response is dropped."""
        self.unpark()
        if self.matches is not None:
            left = self.relay.proxy.plan.on_response(response, self)
            if left is None:
                self.relay.proxy.emit(Respond(self.connection, []))  # send no bytes, but let the client's next request continue
                return
            response = left
        if not self.responds:
            return
        try:
            self._send(response, encode_response(self.correlation_id, response, self.version))
        except EncodeError as wrong:
            self.close(f"the response cannot be encoded: {wrong}")

    def _send(self, response: Message, parts: list[Buffer]) -> None:
        proxy, connection = self.relay.proxy, self.connection
        if connection.parked is self:  # `unpark`, inline because this is faster
            connection.parked = None
        if connection.state is not OPEN:
            return
        if proxy.trace.exchanges:
            proxy.trace.replied(self, response, parts)
        if proxy.metrics is not None:
            proxy.metrics.passed(*self.sender, errors_in(response), self.stages)
        if self.matches is not None and self.matches.wire:
            proxy.plan.send(parts, self)
        else:
            proxy.effects.append(Respond(connection, parts))

    def left(self) -> None:
        """Forget the fault rules for the response, because the client has disconnected."""
        if self.matches is not None:
            self.relay.proxy.plan.left(self)

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of responding."""
        self.relay.proxy.close(self.connection, reason)
        return Outcome.CLOSED
