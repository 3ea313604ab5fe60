"""The rules of the idempotence validator as data, and their presets.

A broker with the preset `kafka-X.Y` responds like this release of Apache Kafka. The other presets stand for the textbook
algorithm, simpler brokers and Apache Pulsar's deduplication. Tests can run a client against each preset, and an audit can ask
what a preset would have decided.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.releases import DEFAULT
from wirebroker.core.releases.changes import RELEASES, ByRelease
from wirebroker.core.releases.naming import RELEASE_PROFILES, unknown

DEFAULT_PROFILE = f"kafka-{DEFAULT}"
"""The profile of a broker that is started without a profile."""


FirstSequence = Literal["any", "zero_or_45", "zero_or_59"]
Marker = Literal["45", "59"]
TransactionStart = Literal["zero", "any"]
AfterDelete = Literal["kept", "lost"]

WINDOW = ByRelease(1).then(
    "1.0", 5, "retries of the last five batches are recognised, instead of only the last batch", "KAFKA-5494"
)
FIRST_SEQUENCE = (
    ByRelease[FirstSequence]("zero_or_45")
    .then("1.0", "zero_or_59", "a first sequence other than zero gets the special error 59", "KIP-192")
    .then("2.5", "any", "a producer without state may begin at any sequence", "KIP-360")
)
AFTER_MARKER = (
    ByRelease[Marker]("45")
    .then("2.1", "59", "a gap after a transaction's marker gets error 59")
    .then("2.5", "45", "a gap after a transaction's marker gets error 45", "KIP-360")
)
TRANSACTION_START = ByRelease[TransactionStart]("any").then(
    "4.1", "zero", "with transaction version 2 a producer's first sequence must be 0", "KIP-890"
)
STATE_AFTER_DELETE = ByRelease[AfterDelete]("lost").then(
    "2.4", "kept", "a producer's state still exists after its records were deleted", "KAFKA-7190"
)


class Rules(Struct, frozen=True):
    """The rules by which the validator judges a producer's batch. `--set rule=value` changes a field."""

    name: str = DEFAULT_PROFILE
    window: int = WINDOW.at(DEFAULT)
    """how many of the latest batches of a producer on a partition are remembered, so that their retries are recognised; at
    least 1"""
    first_sequence: FirstSequence = FIRST_SEQUENCE.at(DEFAULT)
    """the first sequences that a producer without state on the partition may send, and the error for other sequences"""
    after_marker: Marker = AFTER_MARKER.at(DEFAULT)
    """the error for a sequence other than zero if the partition has nothing of the producer except a transaction's marker; also
    the error for a producer without an epoch, unless `first_sequence` is `any`"""
    transaction_start: TransactionStart = TRANSACTION_START.at(DEFAULT)
    """the first sequences that a producer may send if it uses transaction version 2 and has no state on the partition"""
    unissued: Literal["accept", "59"] = "accept"
    """the response to a producer id that InitProducerId never issued"""
    stale: Literal["45", "46", "acknowledge"] = "45"
    """the response to a retry of a batch older than the window: an error, or a duplicate with offset −1"""
    gap: Literal["45", "45_until_new_id", "accept"] = "45"
    """the response to a batch that leaves a gap in the sequences; with `45_until_new_id`, all later batches of the producer are
    refused, too"""
    duplicate: Literal["original_offset", "dropped"] = "original_offset"
    """the offset in the response to a recognised retry: the offset of the stored batch, or −1"""
    key: Literal["producer_id", "client_id"] = "producer_id"
    """the key that identifies a producer"""
    state_after_delete: AfterDelete = STATE_AFTER_DELETE.at(DEFAULT)
    """whether a producer's state remains when retention or DeleteRecords deletes the producer's last batch"""
    release: str = DEFAULT
    """the release of Kafka whose API versions, features and default settings the broker has"""

    @property
    def needs_issued(self) -> bool:
        """Tells whether the rules have a special response to a producer id that was never issued."""
        return self.unissued != "accept"

    @property
    def keeps_state_on_log_start_advance(self) -> bool:
        """Tells whether a producer's state remains when its last batch is deleted."""
        return self.state_after_delete == "kept"

    def __post_init__(self) -> None:
        for rule in _numbers():
            if not isinstance(number := getattr(self, rule), int) or number < 1:
                raise ValueError(f"rule {rule} must be a whole number of at least 1, not {number!r}")
        for rule, choices in _choices().items():
            if getattr(self, rule) not in choices:
                raise ValueError(f"rule {rule} must be one of {', '.join(choices)}, not {getattr(self, rule)!r}")

    def with_setting(self, rule: str, value: Any) -> Rules:
        """Returns these rules with one rule changed; `value` may be text. The ValueError for an unknown rule suggests the rule
        with the most similar name."""
        known = [name for name in self.__struct_fields__ if name not in ("name", "release")]
        if rule not in known:
            raise ValueError(f"there is no rule {rule!r}{did_you_mean(rule, known, 0.4)}")
        if rule not in _numbers():
            value = str(value)
        elif isinstance(value, str) and value.isdigit():
            value = int(value)
        return replace(self, **{rule: value})


@cache
def _numbers() -> tuple[str, ...]:
    """Returns the rules whose values are whole numbers."""
    return tuple(rule for rule, hint in get_type_hints(Rules).items() if hint is int)


@cache
def _choices() -> dict[str, tuple[str, ...]]:
    """Returns the values of each rule that has a fixed set of values."""
    return {rule: get_args(hint) for rule, hint in get_type_hints(Rules).items() if get_origin(hint) is Literal}


def _rules_of(release: str) -> Rules:
    return Rules(
        f"kafka-{release}",
        window=WINDOW.at(release),
        first_sequence=FIRST_SEQUENCE.at(release),
        after_marker=AFTER_MARKER.at(release),
        transaction_start=TRANSACTION_START.at(release),
        state_after_delete=STATE_AFTER_DELETE.at(release),
        release=release,
    )


ProfileName = Literal[
    "kafka-4.4", "textbook", "single", "highest", "kafka-4.3", "kafka-4.2", "kafka-4.1", "kafka-4.0", "kafka-3.9",
    "kafka-3.8", "kafka-3.7", "kafka-3.6", "kafka-3.5", "kafka-3.4", "kafka-3.3", "kafka-3.0", "kafka-2.8", "kafka-2.7",
    "kafka-2.6", "kafka-2.5", "kafka-2.4", "kafka-2.3", "kafka-2.1", "kafka-1.1", "kafka-1.0", "kafka-0.11", "pulsar",
]  # fmt: skip
PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        _rules_of(DEFAULT),
        Rules("textbook", first_sequence="zero_or_45", unissued="59"),
        Rules("single", window=1, first_sequence="zero_or_45", unissued="59", gap="45_until_new_id"),
        Rules("highest", first_sequence="zero_or_45", unissued="59", stale="acknowledge"),
        *(_rules_of(name) for name in reversed(RELEASES) if name != DEFAULT),
        Rules("pulsar", window=1, stale="acknowledge", gap="accept", duplicate="dropped", key="client_id"),
    )
}


def profile(name: str, **overrides: Any) -> Rules:
    """Returns the preset `name`, with the rules in `overrides` changed. The ValueError for an unknown profile or rule suggests
    the most similar known name."""
    if not isinstance(name, str) or name not in PROFILES:
        raise ValueError(unknown(name, PROFILES))
    rules = PROFILES[name]
    for rule, value in overrides.items():
        rules = rules.with_setting(rule, value)
    return rules


def upgraded(rules: Rules, to: str) -> Rules:
    """Returns the rules of the release `to`, such as "kafka-4.4". A rule in `rules` that differs from the rule of the present
    release keeps its value.

    Raises ValueError unless both profiles are releases of Kafka.
    """
    for name in (to, rules.name):
        if name not in RELEASE_PROFILES:
            other = isinstance(name, str) and name in PROFILES
            raise ValueError(f"the profile {name!r} is not a release of Kafka" if other else unknown(name, RELEASE_PROFILES))
    before = PROFILES[rules.name]
    changed = {name: value for name in rules.__struct_fields__ if (value := getattr(rules, name)) != getattr(before, name)}
    return replace(PROFILES[to], **changed)
