"""The part of an engine that deeds use. The engine imports the deeds for its faults, so the deeds may not import the engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from wirebroker.core.cluster import Cluster
from wirebroker.core.controller import Controller
from wirebroker.core.groups import GroupCoordinator
from wirebroker.core.telemetry import Telemetry
from wirebroker.core.transactions import TransactionCoordinator
from wirebroker.requests.authentication import Authenticator
from wirebroker.requests.authorizer import Authorizer
from wirebroker.requests.effects import Effect


class Upgrade(Protocol):
    """A rolling upgrade that has not begun."""

    @property
    def nodes(self) -> Collection[int]:
        """The brokers that are to be upgraded."""

    def go_on(self, now: int) -> None:
        """Begin the upgrade. If a change cannot be written, the log reports this."""


class EngineParts(Protocol):
    """The cluster, its coordinators, and the methods that stop and start brokers."""

    cluster: Cluster
    controller: Controller
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    telemetry: Telemetry
    authenticator: Authenticator
    authorizer: Authorizer

    @property
    def now(self) -> int:
        """The time, in ms since the epoch."""

    def emit(self, effect: Effect) -> None:
        """Add an effect that the host performs."""

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""

    def kill_broker(self, node_id: int, now: int) -> None:
        """Stop a broker as kill −9 does. Raises ValueError if the broker is down."""

    def start_broker(self, node_id: int, now: int) -> None:
        """Start a killed broker."""

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Make the coordinators forget a deleted topic."""

    def upgrade_from(self, first: int, to: str, pause_ms: int) -> Upgrade:
        """Returns a rolling upgrade to another release. The upgrade begins with the broker `first`. Raises ValueError if the
        upgrade is refused."""
