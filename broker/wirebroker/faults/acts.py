"""The objects on which a fault acts: a request, the state of a broker, the bytes of a response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from kafkawire.declare import Message
from wirebroker.requests.connection import Parked
from wirebroker.requests.effects import Outcome, Shape
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import Where
from wirebroker.requests.received import Received

if TYPE_CHECKING:  # a proxy has no broker
    from wirebroker.deeds.broker import EngineBroker


class ExchangeParts(Received, Parked, Protocol):
    """The part of an exchange that faults use before the response is sent."""

    correlation_id: int
    now: int
    """The time of arrival, in ms since the epoch."""
    frame: memoryview | None
    """The bytes of this request. The fast path compares the next request with these bytes, unless they are None."""

    @property
    def alive(self) -> bool:
        """Tells whether the client still waits for the response."""

    @property
    def responds(self) -> bool:
        """Tells whether the client will get a response."""

    def handle(self, request: Message) -> None:
        """Handle the request. The response is passed to `FaultPlan.on_response`, now or later."""

    def respond(self, response: Message) -> None:
        """Send this response to the client."""

    def park(self) -> None:
        """Make the connection's later requests wait until this request has a response."""

    def unpark(self) -> None:
        """Let the later requests of the connection continue."""

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of responding."""


@dataclass(slots=True)
class Injection(ABC):
    """One request on which a rule acts: the data of the request, and the methods that a rule can call. The plan implements the
    methods.
    """

    request: Message
    exchange: ExchangeParts
    facts: Facts
    only: Where | None
    """The matching partitions of the request. None stands for all partitions."""
    batches: list[Batch | None]
    """The matching batches of a Produce request. For any other request the list is `[None]`."""

    @property
    @abstractmethod
    def broker(self) -> EngineBroker:
        """The interface to the broker, for rules that change its state."""

    @abstractmethod
    def respond(self, response: Message) -> Outcome:
        """Send the response instead of handling the request. Afterwards, only rules that act on responses still act."""

    @abstractmethod
    def refuse(self, code: int, only: Where | None) -> Message | Outcome:
        """Respond with an error for the partitions in `only`. If the request names other partitions, too, returns a request
        with only these other partitions. Otherwise returns the outcome.

        A request that only reads is handled normally, and then the error replaces the result in the response.
        """

    @abstractmethod
    def handle_later(self, ms: int) -> Outcome:
        """Handle the request `ms` milliseconds later."""

    @abstractmethod
    def handle_after_others(self, others: int) -> Outcome:
        """Handle the request as soon as `others` requests of other connections have been handled."""

    @abstractmethod
    def respond_later(self, response: Message, ms: int) -> None:
        """Send the response `ms` milliseconds later."""

    @abstractmethod
    def lose_response(self, *, close: bool, reset: bool = False) -> bool:
        """Do not send the response. With `close`, close the connection. Without `close`, never send anything on the connection
        again. Returns False, which tells the caller not to send the response."""

    @abstractmethod
    def reset(self) -> Outcome:
        """Reset the connection instead of handling the request."""

    @abstractmethod
    def fail_write(self, batch: Batch) -> None:
        """Make the write of a batch fail."""

    @abstractmethod
    def slow_write(self, batch: Batch, ms: int) -> None:
        """Make the write of a batch take `ms` milliseconds longer."""

    @abstractmethod
    def crash(self) -> None:
        """Kill the broker as soon as the request is handled."""

    @abstractmethod
    def at_unload(self, restore: Callable[[], None] | None) -> bool:
        """Call `restore` when the rule is unloaded. Returns False if `restore` is None, because nothing was changed."""

    @abstractmethod
    def report(self, done: bool) -> None:
        """If `done` is True, write to the trace that the rule has fired. If `done` is False, the rule had nothing to do, and
        the firing is not counted."""


class Greeting(Struct):
    """A TLS handshake that is about to begin. Fault rules set the fields that follow `can_expire`."""

    listener: str
    now: int
    can_expire: bool
    """Tells whether the listener can present an expired certificate."""
    expired: bool = False
    stalled_by: Hashable | None = None
    """The rule that stalls the handshake."""
    until: int | None = None
    """The time at which a stalled handshake continues, in ms since the epoch. If it is None, the handshake continues when the
    rule is unloaded."""


class OutgoingResponse(Struct):
    """The changes to the bytes of a response. Each matching fault rule sets some of the fields."""

    size: int
    sample: Callable[[range, int], list[int]]
    """A function such as `Random.sample`, which chooses distinct random numbers from a range."""
    cut: int | None = None
    piece: int | None = None
    pause: float = 0.0
    slowed_by: Hashable | None = None
    flipped: list[int] = []
    closing: list[tuple[int, Hashable]] = []
    """For each rule that closes the connection: the time in ms until then, and the rule."""

    @property
    def shape(self) -> Shape:
        """The changes, in the form that the network layer needs."""
        return Shape(self.cut, self.piece, self.pause, tuple(self.flipped), self.slowed_by)
