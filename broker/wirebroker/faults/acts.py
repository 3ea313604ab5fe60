"""The objects on which a fault acts: a request, the state of a broker, the bytes of a response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkawire.declare import Message
from wirebroker.requests.connection import Connection, Parked
from wirebroker.requests.effects import Outcome, Shape
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import TopicPartition, Where
from wirebroker.requests.received import Received


class ExchangeParts(Received, Parked, Protocol):
    """The part of a request, which has no response yet, that faults need."""

    correlation_id: int
    now: int
    """The time of arrival, in ms since the epoch."""
    frame: memoryview | None
    """The bytes of the request, with which the fast path compares the next request. It is None if the fast path must not
    compare the next request with it."""

    @property
    def alive(self) -> bool:
        """Tells whether the client still waits for the response."""

    @property
    def responds(self) -> bool:
        """Tells whether the client will get a response."""

    def handle(self, request: Message) -> None:
        """Handle the request. Its response is passed to `FaultPlan.on_response`, now or later."""

    def respond(self, response: Message) -> None:
        """Send the response to the request."""

    def park(self) -> None:
        """Let the later requests of the connection wait until this request has a response."""

    def unpark(self) -> None:
        """Let the later requests of the connection continue."""

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of responding."""


class NothingToChange(ValueError):
    """Raised if a fault cannot change the broker's state, because the object to change does not exist or its state forbids the
    change. The message names the reason."""


class BrokerParts(Protocol):
    """The interface through which faults change the storage and the state of a broker."""

    @property
    def nodes(self) -> Collection[int]:
        """The ids of the cluster's brokers."""

    def why_no_upgrade(self, to: str) -> str:
        """Returns why the cluster cannot be upgraded to a release, or ""."""

    def fail_write(self, partition: TopicPartition) -> None:
        """Make the next write to the partition fail."""

    def write_failed(self, partition: TopicPartition) -> bool:
        """Let writes succeed again. Returns whether a write failed since `fail_write`."""

    def fill_disk(self, node_id: int, topic: str | None, partition: int | None) -> Callable[[], None] | None:
        """Make all partitions unavailable that the node `node_id` leads, or only those of the given topic or partition. Returns
        a function that makes them available again, or None if no partition was affected."""

    def expire_producer(self, producer_id: int, topic: str | None, partition: int | None) -> int:
        """Remove the state of a producer from all partitions, or from those of the given topic or partition. Returns the number
        of partitions that had the state."""

    def expire_transactional_id(self, transactional_id: str, now: int) -> None:
        """Forget a transactional id. Raises NothingToChange."""

    def fence(self, transactional_id: str, now: int) -> int:
        """Increase the producer epoch of a transactional id. Returns the new epoch. Raises NothingToChange."""

    def expire_session(self, connection: Connection, now: int) -> bool:
        """End the session of a connection that has authenticated by SASL. Returns False if the connection has not."""

    def withdraw_acl(self, text: str) -> bool:
        """Remove the ACL that `text` describes. Returns whether the ACL existed. Raises ValueError if `text` is not an ACL."""

    def slow_reassignments(self, until: int) -> None:
        """Delay reassignments: a replica that is added before the time `until` becomes in sync only at `until`."""

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> tuple[int, int]:
        """Delete the records of a log from `offset` on. Returns the log end offset before and after. Raises NothingToChange."""

    def move_leader(self, partitions: Iterable[TopicPartition], now: int) -> int:
        """Make another broker the leader of each partition. Returns the number of partitions whose leader has changed."""

    def move_coordinator(self, groups: Iterable[str], transactional_ids: Iterable[str], now: int) -> int:
        """Make another broker the coordinator of the groups and transactional ids. Returns the number of groups and
        transactional ids whose coordinator has changed."""

    def expire_member(self, groups: Iterable[str], member_id: str, now: int) -> bool:
        """End the session of the member `member_id` of one of the groups. Returns False if no group has this member."""

    def advance(self, connection: Connection, ms: int) -> None:
        """Move the clock forward by `ms` as soon as the connection's current request has a response or is parked."""

    def restart(self, mode: Any, now: int) -> None:
        """Stop all brokers and start them again."""

    def upgrade(self, to: str, first: int, ms: int) -> Callable[[int], None]:
        """Returns a function that begins a rolling upgrade. The argument of this function is the time. Raises
        NothingToChange."""

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
        """Send the response instead of handling the request. Of the other rules, only those that act on responses still act."""

    @abstractmethod
    def refuse(self, code: int, only: Where | None) -> Message | Outcome:
        """Respond with an error for the partitions `only`. Returns a request for the other partitions, which is to be handled,
        or the outcome if there are no others.

        A request that only reads is handled normally, and then the error replaces the result in the response.
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
        """Do not send the response. With `close`, close the connection. Without `close`, nothing is ever sent on the connection
        again. Returns False, so that the caller does not send the response."""

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
        """If `done` is set, write to the trace that the rule has fired. If `done` is False, the rule had nothing to do, and its
        firing is not counted."""


@dataclass(slots=True)
class Greeting:
    """A TLS handshake that is about to begin. Fault rules set the fields below `can_expire`."""

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
    """The changes that fault rules make to the bytes of a response. The matching rules set the fields one after the other."""

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
        """The changes in the form that the network layer needs."""
        return Shape(self.cut, self.piece, self.pause, tuple(self.flipped))
