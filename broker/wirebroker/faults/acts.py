"""The objects on which a fault acts: a request, the state of a broker, the bytes of a response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkawire.declare import Message
from wirebroker.requests.connection import Connection, Parked
from wirebroker.requests.effects import Outcome, Shape
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import TopicPartition, Where
from wirebroker.requests.received import Received


class ExchangeParts(Received, Parked, Protocol):
    """A request on its way to its response."""

    correlation_id: int
    now: int
    """The time of arrival, in ms since the epoch."""
    frame: memoryview | None
    """The bytes from which the request was read, if the next request may be recognised by the same bytes."""

    @property
    def alive(self) -> bool:
        """Tells whether the client still waits for the response."""

    @property
    def responds(self) -> bool:
        """Tells whether the client will get a response."""

    def handle(self, request: Message) -> None:
        """Let the request be handled. Its response passes `FaultPlan.on_response`, now or later."""

    def respond(self, response: Message) -> None:
        """Send its response."""

    def park(self) -> None:
        """Hold back later requests of the connection until this request has its response."""

    def unpark(self) -> None:
        """Stop holding back later requests."""

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of responding."""


class NothingToChange(ValueError):
    """Raised for an impossible change of state: its object does not exist, or the object's state forbids the change. The
    message names the reason."""


class BrokerParts(Protocol):
    """The internals of a broker, for faults of storage and state."""

    def fail_write(self, partition: TopicPartition) -> None:
        """Let the next write to the partition fail."""

    def write_failed(self, partition: TopicPartition) -> bool:
        """Let writes succeed again. Returns whether a write failed since `fail_write`."""

    def fill_disk(self, node_id: int, topic: str | None, partition: int | None) -> Callable[[], None] | None:
        """Take the partitions that a node leads offline. Returns the call that brings the partitions back, or None without
        such partitions."""

    def expire_producer(self, producer_id: int, topic: str | None, partition: int | None) -> int:
        """Forget a producer. Returns the number of partitions that knew the producer."""

    def expire_transactional_id(self, transactional_id: str, now: int) -> None:
        """Forget a transactional id. Raises NothingToChange."""

    def fence(self, transactional_id: str, now: int) -> int:
        """Raise the epoch of a transactional id, and return it. Raises NothingToChange."""

    def expire_session(self, connection: Connection, now: int) -> bool:
        """Let the session of a client end. Returns whether the client has authenticated by SASL."""

    def withdraw_acl(self, text: str) -> bool:
        """Remove an ACL. Returns whether the ACL existed. Raises ValueError for a text that is not an ACL."""

    def slow_reassignments(self, until: int) -> None:
        """Let replicas that are added before `until` get in sync only at `until`."""

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> tuple[int, int]:
        """Remove the end of a log from an offset on. Returns its log end offset before and after. Raises NothingToChange."""

    def move_leader(self, partitions: Iterable[TopicPartition], now: int) -> int:
        """Let another broker lead each of these partitions. Returns how many leaders have moved."""

    def move_coordinator(self, groups: Iterable[str], transactional_ids: Iterable[str], now: int) -> int:
        """Let another broker coordinate these groups and transactional ids. Returns how many coordinators have moved."""

    def expire_member(self, groups: Iterable[str], member_id: str, now: int) -> bool:
        """Let the session of a member of these groups end. Returns whether such a member exists."""

    def advance(self, connection: Connection, ms: int) -> None:
        """Move the clock forward as soon as this request waits or is done."""

    def restart(self, mode: Any, now: int) -> None:
        """Stop all brokers and start them again."""

    def upgrade(self, to: str, first: int, ms: int) -> Callable[[int], None]:
        """Returns the call, with the time, that begins an upgrade of the brokers. Raises NothingToChange."""

    def crash(self, node_id: int, now: int) -> None:
        """Kill one broker and start it again."""


@dataclass(slots=True)
class Injection(ABC):
    """One request on which a rule acts: its data, and the methods with which a rule acts on it. The plan implements the
    methods.
    """

    request: Message
    exchange: ExchangeParts
    facts: Facts
    only: Where | None
    """The matching partitions; None stands for all."""
    batches: list[Batch | None]
    """The matching batches of a Produce. Any other request is a single None."""

    @property
    @abstractmethod
    def broker(self) -> BrokerParts:
        """The internals of the broker, for rules that need a broker."""

    @abstractmethod
    def respond(self, response: Message) -> Outcome:
        """Respond without handling the request. Later rules do not act on the request, but rules about the response do."""

    @abstractmethod
    def refuse(self, code: int, only: Where | None) -> Message | Outcome:
        """Respond with an error. Returns the request for the partitions to handle, or the outcome.

        A request that only reads is handled, and the error replaces its response.
        """

    @abstractmethod
    def handle_later(self, ms: int) -> Outcome:
        """Handle the request `ms` later."""

    @abstractmethod
    def handle_after_others(self, others: int) -> Outcome:
        """Handle the request after `others` requests of other connections."""

    @abstractmethod
    def respond_later(self, response: Message, ms: int) -> None:
        """Send the response `ms` later."""

    @abstractmethod
    def lose_response(self, *, close: bool, reset: bool = False) -> bool:
        """Withhold the response, and close the connection or let it go silent. Returns False, because the response cannot be
        sent."""

    @abstractmethod
    def reset(self) -> Outcome:
        """Reset the connection instead of handling the request."""

    @abstractmethod
    def fail_write(self, batch: Batch) -> None:
        """Let the write of a batch fail."""

    @abstractmethod
    def slow_write(self, batch: Batch, ms: int) -> None:
        """Let the write of a batch take `ms` longer."""

    @abstractmethod
    def crash(self) -> None:
        """Kill the broker once the request is handled."""

    @abstractmethod
    def at_unload(self, restore: Callable[[], None]) -> None:
        """Call `restore` when the rule is unloaded."""

    @abstractmethod
    def report(self, done: bool) -> None:
        """Trace that the rule acted, or take back its count if there was nothing to do."""


@dataclass(slots=True)
class Greeting:
    """A TLS handshake at its beginning, and the effect of the rules on it."""

    listener: str
    now: int
    can_expire: bool
    """Tells whether there is an expired certificate to show."""
    expired: bool = False
    stalled_by: Hashable | None = None
    """The rule that stalls the handshake."""
    until: int | None = None
    """The time at which a stalled handshake continues, in ms since the epoch. None: it continues when the rule is unloaded."""


@dataclass(slots=True)
class OutgoingResponse:
    """The bytes of a response on their way. Each rule of the wire changes the bytes in turn."""

    size: int
    sample: Callable[[range, int], list[int]]
    """Draws different numbers from a range: `Random.sample`."""
    cut: int | None = None
    piece: int | None = None
    pause: float = 0.0
    flipped: list[int] = field(default_factory=list)
    closing: list[tuple[int, str]] = field(default_factory=list)
    """The time in ms until the connection is closed, and the reason."""

    @property
    def shape(self) -> Shape:
        """The changes, for the network."""
        return Shape(self.cut, self.piece, self.pause, tuple(self.flipped))
