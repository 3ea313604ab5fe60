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
    """A request that has no response yet, as far as faults need it."""

    correlation_id: int
    now: int
    """The time of arrival, in ms since the epoch."""
    frame: memoryview | None
    """The bytes of the request; None if the fast path may not compare the next request with these bytes."""

    @property
    def alive(self) -> bool:
        """Tells whether the client still waits for the response."""

    @property
    def responds(self) -> bool:
        """Tells whether the client will get a response."""

    def handle(self, request: Message) -> None:
        """Handle the request. Now or later, its response is passed to `FaultPlan.on_response`."""

    def respond(self, response: Message) -> None:
        """Send its response."""

    def park(self) -> None:
        """Handle no later request of the connection until this request has a response."""

    def unpark(self) -> None:
        """Handle the later requests of the connection again."""

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of responding."""


class NothingToChange(ValueError):
    """Raised if a fault cannot change the broker's state, because the object to change does not exist or its state forbids the
    change. The message names the reason."""


class BrokerParts(Protocol):
    """What faults of storage and state can change in a broker."""

    def fail_write(self, partition: TopicPartition) -> None:
        """Make the next write to the partition fail."""

    def write_failed(self, partition: TopicPartition) -> bool:
        """Let writes succeed again. Returns whether a write failed since `fail_write`."""

    def fill_disk(self, node_id: int, topic: str | None, partition: int | None) -> Callable[[], None] | None:
        """Make the partitions that the node `node_id` leads unavailable. Returns a function that makes them available again, or
        None if no partition was affected."""

    def expire_producer(self, producer_id: int, topic: str | None, partition: int | None) -> int:
        """Remove the state of a producer from all partitions, or from the given ones. Returns from how many it was removed."""

    def expire_transactional_id(self, transactional_id: str, now: int) -> None:
        """Forget a transactional id. Raises NothingToChange."""

    def fence(self, transactional_id: str, now: int) -> int:
        """Increase the producer epoch of a transactional id. Returns the new epoch. Raises NothingToChange."""

    def expire_session(self, connection: Connection, now: int) -> bool:
        """End the session of a connection that has authenticated by SASL. Returns False if it has not."""

    def withdraw_acl(self, text: str) -> bool:
        """Remove the ACL that `text` describes. Returns whether the ACL existed. Raises ValueError if `text` is not an ACL."""

    def slow_reassignments(self, until: int) -> None:
        """Delay reassignments: a replica that is added before the time `until` becomes in sync only at `until`."""

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> tuple[int, int]:
        """Delete the records of a log from `offset` on. Returns the log end offset before and after. Raises NothingToChange."""

    def move_leader(self, partitions: Iterable[TopicPartition], now: int) -> int:
        """Make another broker the leader of each partition. Returns for how many partitions the leader has changed."""

    def move_coordinator(self, groups: Iterable[str], transactional_ids: Iterable[str], now: int) -> int:
        """Make another broker the coordinator of the groups and transactional ids. Returns how many coordinators have
        changed."""

    def expire_member(self, groups: Iterable[str], member_id: str, now: int) -> bool:
        """End the session of the member `member_id` of one of the groups. Returns whether there is such a member."""

    def advance(self, connection: Connection, ms: int) -> None:
        """Move the clock forward by `ms` as soon as the connection's current request waits or has a response."""

    def restart(self, mode: Any, now: int) -> None:
        """Stop all brokers and start them again."""

    def upgrade(self, to: str, first: int, ms: int) -> Callable[[int], None]:
        """Returns a function that begins a rolling upgrade; its argument is the time. Raises NothingToChange."""

    def crash(self, node_id: int, now: int) -> None:
        """Kill one broker and start it again."""


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
    def broker(self) -> BrokerParts:
        """The interface to the broker, for rules that change its state."""

    @abstractmethod
    def respond(self, response: Message) -> Outcome:
        """Respond without handling the request. The other rules do not act on the request, except those that act on the
        response."""

    @abstractmethod
    def refuse(self, code: int, only: Where | None) -> Message | Outcome:
        """Respond with an error for the partitions `only`. Returns a request for the other partitions, which is to be handled,
        or the outcome if there are no others.

        A request that only reads is handled normally; the error then replaces its result in the response.
        """

    @abstractmethod
    def handle_later(self, ms: int) -> Outcome:
        """Handle the request `ms` later."""

    @abstractmethod
    def handle_after_others(self, others: int) -> Outcome:
        """Handle the request as soon as `others` requests of other connections were handled."""

    @abstractmethod
    def respond_later(self, response: Message, ms: int) -> None:
        """Send the response `ms` later."""

    @abstractmethod
    def lose_response(self, *, close: bool, reset: bool = False) -> bool:
        """Do not send the response. With `close`, close the connection; without it, never send anything on the connection
        again. Returns False, which means that the response must not be sent."""

    @abstractmethod
    def reset(self) -> Outcome:
        """Reset the connection instead of handling the request."""

    @abstractmethod
    def fail_write(self, batch: Batch) -> None:
        """Make the write of a batch fail."""

    @abstractmethod
    def slow_write(self, batch: Batch, ms: int) -> None:
        """Make the write of a batch take `ms` longer."""

    @abstractmethod
    def crash(self) -> None:
        """Kill the broker as soon as the request is handled."""

    @abstractmethod
    def at_unload(self, restore: Callable[[], None]) -> None:
        """Call `restore` when the rule is unloaded."""

    @abstractmethod
    def report(self, done: bool) -> None:
        """If `done`, write to the trace that the rule has fired. If not, the rule had nothing to do, so its firing is not
        counted."""


@dataclass(slots=True)
class Greeting:
    """A TLS handshake that is about to begin, and what fault rules do to it."""

    listener: str
    now: int
    can_expire: bool
    """Tells whether the listener has an expired certificate that it can present."""
    expired: bool = False
    stalled_by: Hashable | None = None
    """The rule that stalls the handshake."""
    until: int | None = None
    """The time at which a stalled handshake continues, in ms since the epoch. If it is None, the handshake continues when the
    rule is unloaded."""


@dataclass(slots=True)
class OutgoingResponse:
    """What fault rules do to the bytes of a response. One after the other, the matching rules change the fields."""

    size: int
    sample: Callable[[range, int], list[int]]
    """A function that chooses distinct random numbers from a range, such as `Random.sample`."""
    cut: int | None = None
    piece: int | None = None
    pause: float = 0.0
    flipped: list[int] = field(default_factory=list)
    closing: list[tuple[int, str]] = field(default_factory=list)
    """The time in ms until the connection is closed, and the reason."""

    @property
    def shape(self) -> Shape:
        """The same changes in the form that the network layer needs."""
        return Shape(self.cut, self.piece, self.pause, tuple(self.flipped))
