"""A scenario: its parts, their brokers, faults and steps, and the expected outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from wirebroker.clients import ClientName, ProducerSettings
from wirebroker.core.profile import DEFAULT_PROFILE
from wirebroker.faults.files import FaultFileError, parse
from wirebroker.faults.rules import Rule

TOPIC, RESULTS = "orders", "results"
"""The topic to which a workload writes, and the topic of a pipeline's results."""
OutcomeName = Literal["recovers", "fails cleanly", "duplicates", "loses", "reorders", "hangs", "refuses"]
OUTCOMES: tuple[OutcomeName, ...] = get_args(OutcomeName)


class ScenarioError(ValueError):
    """Raised if a scenario does not exist or cannot be played. The message names the place and the correction."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The setup of the broker: options of MockKafka, and the state in which the broker begins."""

    brokers: int = 1
    partitions: int = 1
    profile: str = DEFAULT_PROFILE
    rules: dict[str, Any] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    producer_epoch: int = 0
    """The epoch that the first InitProducerId returns, or the epoch that the transactional id begins with."""


@dataclass(frozen=True, slots=True)
class Expect:
    """The expected outcome of a run. A count is a number of records, or None if the file expects no particular number."""

    outcome: list[OutcomeName] = field(default_factory=lambda: ["recovers"])
    stored: int | None = None
    doubled: int | None = None
    lost: int | None = None
    failed: int | None = None
    """The number of records that the client reports as failed."""
    clients: dict[str, Expect] = field(default_factory=dict)
    """Expectations that apply only to certain clients, by the client's name."""

    def of(self, client: str) -> Expect:
        """Returns the expectation for this client."""
        return self.clients.get(client, self)


@dataclass(frozen=True, slots=True)
class Part:
    """One run of a scenario."""

    name: str
    broker: BrokerSettings
    producer: ProducerSettings
    steps: list[dict[str, Any]]
    expect: Expect
    faults: list[dict[str, Any]]
    where: str

    def rules(self) -> list[Rule]:
        """Returns the faults as new rules."""
        return rules_of(self.faults, self.where)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named failure."""

    name: str
    title: str
    broker_does: str
    good_client: str
    sources: list[str]
    behaviours: list[str]
    clients: list[ClientName]
    others: str
    """Why the other clients cannot play the part."""
    parts: list[Part]


def rules_of(faults: list[dict[str, Any]], where: str) -> list[Rule]:
    """Returns the rules from tables that are written as in a fault file. Raises ScenarioError."""
    try:
        return parse({"fault": faults}, where).rules
    except FaultFileError as wrong:
        raise ScenarioError(str(wrong)) from None
