"""A scenario. It has parts; each part has a broker, faults, steps and an expected outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from wirebroker.common.complaints import Complaint
from wirebroker.core.profile import DEFAULT_PROFILE
from wirebroker.faults.files import FaultFileError, parse
from wirebroker.faults.rules import Rule
from wirebroker_tools.drivers import ClientName, ProducerSettings

TOPIC, RESULTS = "orders", "results"
"""The topic to which a workload writes, and the topic of a pipeline's results."""
OutcomeName = Literal["recovers", "fails cleanly", "duplicates", "loses", "reorders", "hangs", "refuses"]
OUTCOMES: tuple[OutcomeName, ...] = get_args(OutcomeName)


class ScenarioError(Complaint, ValueError):
    """Raised if a scenario does not exist or cannot be played. The message says where the error is, and how to correct it."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The setup of the broker: options of MockKafka, and the broker's state at the beginning."""

    brokers: int = 1
    partitions: int = 1
    profile: str = DEFAULT_PROFILE
    rules: dict[str, Any] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    producer_epoch: int = 0
    """If not 0: the epoch that the first InitProducerId returns. For a producer with a transactional id, it is the epoch with
    which the id begins.
    """


@dataclass(frozen=True, slots=True)
class Expect:
    """The expected outcome of a run. Each count is a number of records, or None if any number is accepted."""

    outcome: list[OutcomeName] = field(default_factory=lambda: ["recovers"])
    stored: int | None = None
    doubled: int | None = None
    lost: int | None = None
    failed: int | None = None
    """The number of records that the client reports as failed."""
    clients: dict[str, Expect] = field(default_factory=dict)
    """Expectations that apply only to some clients, by the client's name."""

    def of(self, client: str) -> Expect:
        return self.clients.get(client, self)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a scenario. A run plays one part."""

    name: str
    broker: BrokerSettings
    producer: ProducerSettings
    steps: list[dict[str, Any]]
    expect: Expect
    faults: list[dict[str, Any]]
    where: str

    def rules(self) -> list[Rule]:
        """Returns new fault rules made from the tables in `faults`."""
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
    """The reason why clients that are not in `clients` cannot play the scenario."""
    parts: list[Part]


def rules_of(faults: list[dict[str, Any]], where: str) -> list[Rule]:
    """Returns the fault rules in these tables, which have the form of a fault file. Raises ScenarioError."""
    try:
        return parse({"fault": faults}, where).rules
    except FaultFileError as wrong:
        raise ScenarioError(str(wrong)) from None
