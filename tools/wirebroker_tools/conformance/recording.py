"""Recorded scenarios: their form, their broker settings, and the comparison of two observations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from kafkawire.messages import BASE

Json = dict[str, Any]
RECORDINGS = [
    f"kafka-{BASE}{group}.json"
    for group in ("", "-security", "-quotas", "-groups", "-telemetry", "-features", "-loggers", "-log-dirs", "-controller")
]
"""The recordings of the base release."""
OWN = {"4.4": "kafka-4.4.0.json"}
"""For each release, the file of the scenarios that this release and newer releases support, but no earlier release."""
NOT_COMPARED = ("n", "n_v0", "len", "text")
"""Two kinds of values are not compared. One is the number of advertised APIs: a broker may have fewer APIs than Kafka, and
still handle these APIs as Kafka does. The other is the texts that wirebroker writes for unreadable data.
"""
LEFT_OUT = "left out: Kafka did not repeat it"
"""The placeholder for the response to a step if two runs of a real Kafka gave different responses."""
PRESENCE_ONLY = ("message", "m")
"""Only the presence of these text fields is compared, not their wording."""
NO_ERROR = "0 NONE"
_MARKER_HEX = 12

BASE_SETTINGS = {
    "num.partitions": "1", "offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4", "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1", "group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "true",
}  # fmt: skip
LOG_DIRS = "/logs-1,/logs-2,/logs-3"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
GROUP_SETTINGS: dict[str, dict[str, str]] = {
    "main": {},
    "quotas": {},
    "controller": {},
    "features": {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"},
    "restart": {},
    "loggers": {},
    "cold": {},
    "cold_shares": {},
    "cold_shares_alter": {},
    "slow": {},
    "groups": {},
    "expire": {
        "producer.id.expiration.ms": "2000",
        "producer.id.expiration.check.interval.ms": "500",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    },
    "expire_txnid": {
        "transactional.id.expiration.ms": "2500",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    },
    "expire_off_retention": {"log.retention.check.interval.ms": "500"},
    "secured": {"sasl.enabled.mechanisms": MECHANISMS},
    "secured_tokens": {"sasl.enabled.mechanisms": f"{MECHANISMS},OAUTHBEARER"},
    "secured_owners": {
        "sasl.enabled.mechanisms": MECHANISMS,
        "delegation.token.secret.key": "key",
        "delegation.token.max.lifetime.ms": "7200000",
        "delegation.token.expiry.time.ms": "3600000",
    },
    "secured_acls": {
        "sasl.enabled.mechanisms": MECHANISMS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
    "telemetry": {"telemetry.max.bytes": "1000"},
    "log_dirs": {"log.dirs": LOG_DIRS},
    "log_dirs_new": {"log.dirs": LOG_DIRS},
    "topology": {
        "group.streams.topology.description.plugin.class": "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",
    },
    "full": {"group.consumer.max.size": "1", "group.streams.max.size": "1"},
    "dead_letters": {
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "errors.deadletterqueue.topic.name.prefix": "o",
    },
    "secured_sessions": {"sasl.enabled.mechanisms": MECHANISMS, "connections.max.reauth.ms": "1500"},
}
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
"""The users of scenarios about authentication."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recorded dialogue: steps, each with its observation. `ran_on` names the settings of the recorded broker."""

    name: str
    about: str
    ran_on: str
    steps: list[Json]
    expected: list[Any] | None = None
    """For a release other than the base release: the normalised response of this release to each step. LEFT_OUT is not
    compared."""

    @property
    def secured(self) -> bool:
        """True if the scenario needs a broker that has a SASL listener and USERS."""
        return self.ran_on.startswith("secured")

    @property
    def telemetry(self) -> bool:
        """True if the scenario needs a broker that receives clients' metrics."""
        return self.ran_on == "telemetry"

    @property
    def settings(self) -> dict[str, str]:
        """The broker settings with which the scenario was recorded."""
        return BASE_SETTINGS | GROUP_SETTINGS[self.ran_on]


@dataclass(frozen=True, slots=True)
class Difference:
    """A step at which a broker's response differs from Kafka's."""

    scenario: str
    index: int
    step: Json
    expected: Any
    got: Any


def own_scenarios(release: str) -> list[Scenario]:
    """Returns the scenarios that this release supports, but the base release does not support. They have the responses of this
    release."""
    return load(files(__package__).joinpath("recordings", OWN[release])) if release in OWN else []


def load(path: Path | Traversable | None = None, only: Iterable[str] | None = None) -> list[Scenario]:
    """Returns the scenarios in a recording, by default the recording of the base release.

    Raises ValueError for names that are not in the recording.
    """
    folder = files(__package__).joinpath("recordings")
    sources: list[Path | Traversable] = [path] if path is not None else [folder.joinpath(name) for name in RECORDINGS]
    scenarios = [scenario for source in sources for scenario in _scenarios_in(source)]
    if only is None:
        return scenarios
    wanted = list(only)
    if unknown := set(wanted) - {scenario.name for scenario in scenarios}:
        raise ValueError(f"there is no scenario {', '.join(sorted(unknown))}")
    return [scenario for scenario in scenarios if scenario.name in wanted]


def _scenarios_in(source: Path | Traversable) -> list[Scenario]:
    try:
        read = json.loads(source.read_text(encoding="utf-8"))["scenarios"]
        return [Scenario(s["name"], s["about"], s["ran_on"], s["steps"]) for s in read]
    except (ValueError, KeyError, TypeError, RecursionError) as wrong:
        reason = f"there is no {wrong}" if isinstance(wrong, KeyError) else str(wrong)
        raise ValueError(f"{source}: this is not a recording of scenarios: {reason}") from None


@dataclass(slots=True)
class Normaliser:
    """Makes observations of different runs comparable: numbers ids by first appearance, and removes times."""

    _ids: dict[tuple[str, Any], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def __call__(self, observed: Any, key: str = "") -> Any:
        if isinstance(observed, dict):
            return self._object(observed, key)
        if isinstance(observed, list):
            if key == "producers":
                observed = sorted(observed, key=lambda p: p.get("pid", -1))
            if key == "partitions":  # Kafka keeps the topics of a ShareFetch in hash tables
                observed = sorted(observed, key=_partition_index)
            return [self(item, key) for item in observed]
        return self._leaf(observed, key)

    def _object(self, observed: Json, key: str) -> Json:
        if key == "" and isinstance(observed.get("partitions"), list):
            observed = observed | {"partitions": sorted(observed["partitions"], key=lambda p: p.get("part", -1))}
        # A response with an error has no producer id, but 0 or −1 in the producer id's field. This default is compared
        # unchanged.
        plain = ("pid",) if str(observed.get("error", NO_ERROR)) != NO_ERROR else ()
        return {k: v if k in plain else self(v, k) for k, v in observed.items() if k not in NOT_COMPARED}

    def _leaf(self, value: Any, key: str) -> Any:
        if key in PRESENCE_ONLY:
            return value is not None
        if (key in ("pid", "ProducerId") and isinstance(value, int) and value >= 0) or (key == "member" and value):
            return self._numbered("pid" if key == "ProducerId" else key, value)
        if key == "coord_epoch" and value >= 0:
            return "0 or more"
        if key == "control_value_hex":
            return _marker_value(value)
        if key == "timestamp" and isinstance(value, int) and value >= 0:
            return "a time"
        return value

    def _numbered(self, kind: str, value: Any) -> str:
        if (kind, value) not in self._ids:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._ids[kind, value] = f"{kind} {self._counts[kind]}"
        return self._ids[kind, value]


def _partition_index(partition: Any) -> int:
    return int(partition.get("partition_index", 0)) if isinstance(partition, dict) else 0


def _marker_value(value: str) -> str:
    """Returns the value of an end marker. Its last four bytes, the coordinator epoch, are replaced by "epoch 0 or more"."""
    if len(value) == _MARKER_HEX and int(value[4], 16) < 8:
        return f"{value[:4]}, epoch 0 or more"
    return value


def normalised(observed: Iterable[Any]) -> list[Any]:
    """Returns the observations of a run in a form that can be compared with the observations of another run."""
    normalise = Normaliser()
    return [normalise(each) for each in observed]


def compare(scenario: Scenario, observed: list[Json]) -> list[Difference]:
    """Returns every step whose observation differs from the recorded observation."""
    recorded = [row["observed"] for row in scenario.steps] if scenario.expected is None else scenario.expected
    expected = normalised(recorded) if scenario.expected is None else recorded
    return [
        Difference(scenario.name, index, scenario.steps[index]["step"], recorded[index], observed[index])
        for index, (wanted, got) in enumerate(zip(expected, normalised(observed), strict=True))
        if wanted not in (got, LEFT_OUT)
    ]


def deliberate(difference: Difference) -> bool:
    """Tells whether this difference is deliberate. There is only one such difference: if a Produce has null records, wirebroker
    returns INVALID_RECORD, Kafka 4.x never responds, and earlier releases return other errors, often twice.
    """
    null_records = difference.step.get("op") == "produce" and difference.step.get("raw_hex", "") is None
    return null_records and str(difference.got.get("error", "")).startswith("87 ")
