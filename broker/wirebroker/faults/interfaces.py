"""The interfaces between the fault plan and its host. The host is a broker's engine, or a proxy in front of a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from wirebroker.faults.acts import ExchangeParts
from wirebroker.faults.matches import Matches
from wirebroker.faults.rules import Rule
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import Effect
from wirebroker.requests.facts import Batch, Facts

if TYPE_CHECKING:  # a proxy has no broker
    from wirebroker.deeds.broker import EngineBroker


class Planned(ExchangeParts, Protocol):
    """An exchange, with the data that the fault plan stores in it."""

    matches: Matches | None
    """The rules that match the exchange."""


class Alarm(Protocol):
    """A call that is scheduled for a later time."""

    def cancel(self) -> None:
        """Cancel the call."""


class Alarms(Protocol):
    """Schedules calls for given times."""

    def at(self, when: int, action: Callable[[int], None]) -> Alarm:
        """Call `action(when)` at the time `when`, in ms since the epoch."""


class FiringTrace(Protocol):
    """The trace in which the firings of rules are written down."""

    def fired(
        self, now: int, connection: Connection, rule: Rule, number: int, facts: Facts | None = None,
        partitions: Iterable[tuple[str, int | None]] | None = None, correlation_id: int = -1, batch: Batch | None = None,
    ) -> None:  # fmt: skip
        """Remember that a rule fired for the `number`th time."""


class Host(Protocol):
    """The broker or proxy whose requests pass through a plan."""

    def rules_loaded(self, loaded: bool) -> None:
        """Note whether the plan has rules now."""

    @property
    def now(self) -> int:
        """The current time, in ms since the epoch."""

    def emit(self, effect: Effect) -> None:
        """Add an effect (send a response, or close a connection), which is performed after all earlier effects."""

    @property
    def trace(self) -> FiringTrace:
        """The trace in which the firings of rules are written down."""

    @property
    def timers(self) -> Alarms:
        """Schedules calls for given times."""

    @property
    def fault_broker(self) -> EngineBroker | None:
        """The interface to the broker's state. It is None in a proxy, which refuses rules that act inside a broker."""

    @property
    def refuses_faults(self) -> str:
        """A sentence with the reason why the host accepts no rules, or "" if it accepts rules."""

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        """Close a connection. With `reset`, reset the connection (TCP RST)."""
