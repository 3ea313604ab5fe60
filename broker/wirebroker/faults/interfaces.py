"""The interfaces between the plan and its host: the engine of a broker, or a proxy before a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from kafkawire.declare import Message
from wirebroker.requests.connection import Connection, Parked
from wirebroker.requests.effects import Effect, Outcome
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import TopicPartition
from wirebroker.requests.received import Received

if TYPE_CHECKING:
    from wirebroker.faults.matches import Matches
    from wirebroker.faults.plan import FaultPlan
    from wirebroker.faults.rules import Rule


class Exchange(Received, Parked, Protocol):
    """A request on its way to its response."""

    correlation_id: int
    now: int
    """When it arrived, in ms since the epoch."""
    frame: memoryview | None
    """The bytes that it was read from, if the next request may be recognised by them."""
    matches: Matches | None
    """The rules that match it."""

    @property
    def alive(self) -> bool:
        """Whether the client still waits for the response."""

    def handle(self, request: Message) -> None:
        """Have the request handled; its response passes `FaultPlan.answered`, now or later."""

    def respond(self, response: Message) -> None:
        """Send its response."""

    def park(self) -> None:
        """Hold back what follows on the connection until it is answered."""

    def close(self, reason: str) -> Outcome:
        """Close the connection instead of answering."""


class Alarm(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Never make the call."""


class Alarms(Protocol):
    """Calls at given times."""

    def at(self, when: int, action: Callable[[int], None]) -> Alarm:
        """Call `action(when)` once it is `when`, in ms since the epoch."""


class FiringTrace(Protocol):
    """Where firings are written down."""

    def fired(
        self, now: int, connection: Connection, rule: Rule, number: int, facts: Facts | None = None,
        partitions: Iterable[tuple[str, int | None]] | None = None, correlation_id: int = -1, batch: Batch | None = None,
    ) -> None:  # fmt: skip
        """Note that a rule fired for the `number`th time."""


class NothingToChange(ValueError):
    """A change of state that cannot be made: its object does not exist, or its state forbids it. The message tells which."""


class Broker(Protocol):
    """The inside of a broker, for faults of storage and state."""

    def fail_write(self, partition: TopicPartition) -> None:
        """Let the next write to the partition fail."""

    def write_failed(self, partition: TopicPartition) -> bool:
        """Let writes succeed again. Returns whether a write failed since `fail_write`."""

    def fill_disk(self, node_id: int, topic: str | None, partition: int | None) -> Callable[[], None] | None:
        """Take the partitions that a node leads offline. Returns the call that brings them back, None if there are none."""

    def expire_producer(self, producer_id: int, topic: str | None, partition: int | None) -> int:
        """Forget a producer. Returns how many partitions knew it."""

    def expire_transactional_id(self, transactional_id: str, now: int) -> None:
        """Forget a transactional id. Raises NothingToChange."""

    def fence(self, transactional_id: str, now: int) -> int:
        """Raise the epoch of a transactional id, which is returned. Raises NothingToChange."""

    def expire_session(self, connection: Connection, now: int) -> bool:
        """Let the session of a client end. Returns whether it has authenticated by SASL."""

    def withdraw_acl(self, text: str) -> bool:
        """Remove an ACL. Returns whether it was there. Raises ValueError for a text that is not an ACL."""

    def slow_reassignments(self, until: int) -> None:
        """Let the replicas that are added before `until` be in sync only then."""

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> tuple[int, int]:
        """Cut a log at an offset. Returns its log end offset before and after. Raises NothingToChange."""

    def restart(self, mode: Any, now: int) -> None:
        """Stop all brokers and start them again."""

    def crash(self, node_id: int, now: int) -> None:
        """Kill one broker and start it again."""


class Host(Protocol):
    """The broker or proxy whose requests pass through a plan."""

    faults: FaultPlan | None
    """The plan while it has rules; the plan sets it."""

    @property
    def now(self) -> int:
        """The latest time that is known, in ms since the epoch."""

    def emit(self, effect: Effect) -> None:
        """Send a response, or close a connection, after the effects before it."""

    @property
    def trace(self) -> FiringTrace:
        """Where firings are written down."""

    @property
    def timers(self) -> Alarms:
        """Calls at given times."""

    @property
    def fault_broker(self) -> Broker | None:
        """The inside of the broker; None in a proxy, which then refuses rules that act there."""

    @property
    def refuses_faults(self) -> str:
        """A sentence that says why no rule may be loaded; "" if rules may be loaded."""

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        """Close a connection, with `reset` at once."""
