"""The rule set of the validator as data, and its presets.

`kafka-4.3` responds as Apache Kafka 4.3.1. The other presets reproduce the textbook, simpler brokers, older releases and
Apache Pulsar's deduplication. Tests can run a client against each preset, and an audit can ask what a preset would have
decided.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from wirebroker.common.suggestions import did_you_mean, nearest

ApiVersions = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by which the validator judges a producer's batch. `--set rule=value` changes a field."""

    name: str = "kafka-4.3"
    window: int = 5
    """batches per producer and partition whose retry is recognised, from 1 up"""
    first_sequence: Literal["any", "zero_or_45", "zero_or_59"] = "any"
    """for a producer without state on the partition; a first sequence other than zero gets this code"""
    unissued: Literal["accept", "59"] = "accept"
    """for a producer id that InitProducerId never issued"""
    stale: Literal["45", "46", "acknowledge"] = "45"
    """a retry from before the window: an error, or a duplicate with offset −1"""
    gap: Literal["45", "45_until_new_id", "accept"] = "45"
    """a sequence after the next one; with `45_until_new_id` all later batches of the producer are refused"""
    duplicate: Literal["original_offset", "dropped"] = "original_offset"
    """the offset in the response to a recognised retry: that of the stored batch, or −1"""
    key: Literal["producer_id", "client_id"] = "producer_id"
    """the key that identifies a producer"""
    state_after_delete: Literal["kept", "lost"] = "kept"
    """a producer's state when retention or DeleteRecords passes its last batch"""
    api_versions: ApiVersions | None = None
    """the versions that the release offers, by API key; None for those of 4.3.1"""

    @property
    def needs_issued(self) -> bool:
        """Tells whether the rules depend on whether a producer id was ever issued."""
        return self.unissued != "accept"

    @property
    def keeps_state_on_log_start_advance(self) -> bool:
        """Tells whether a producer's state remains when its last batch is deleted."""
        return self.state_after_delete == "kept"

    def __post_init__(self) -> None:
        if not isinstance(self.window, int) or self.window < 1:
            raise ValueError(f"rule window is a number of batches from 1 up, not {self.window!r}")
        hints = get_type_hints(Rules)
        for rule, hint in hints.items():
            if get_origin(hint) is Literal and getattr(self, rule) not in get_args(hint):
                choices = ", ".join(get_args(hint))
                raise ValueError(f"rule {rule} is one of {choices}, not {getattr(self, rule)!r}")

    def with_setting(self, rule: str, value: Any) -> Rules:
        """Returns these rules with one rule changed; `value` may be text. The ValueError for an unknown rule names the
        nearest rule."""
        known = [field.name for field in dataclasses.fields(self) if field.name not in ("name", "api_versions")]
        if rule not in known:
            raise ValueError(f"there is no rule {rule!r}{did_you_mean(rule, known, 0.4)}")
        if rule == "window" and isinstance(value, str):
            if not value.isdigit():
                raise ValueError(f"rule window is a number of batches from 1 up, not {value!r}")
            value = int(value)
        changes: dict[str, Any] = {rule: value if rule == "window" else str(value)}
        return dataclasses.replace(self, **changes)


def _keys(text: str) -> ApiVersions:
    """Reads `0:8 1:11 …`, an API key and its newest version each. The oldest version of every API is 0."""
    return {int(key): (0, int(newest)) for key, newest in (pair.split(":") for pair in text.split())}


# The versions that the releases offered, taken from org.apache.kafka.common.protocol.ApiKeys in the kafka-clients of each
# release.
_KAFKA_2_3 = _keys(
    "0:7 1:11 2:5 3:8 8:7 9:5 10:2 11:5 12:3 13:2 14:3 15:3 16:2 17:1 18:2 19:3 20:3 21:1 22:1 23:3 24:1 25:1 26:1 "
    "27:0 28:2 29:1 30:1 31:1 32:2 33:1 34:1 35:1 36:1 37:1 38:1 39:1 40:1 41:1 42:1 43:0 44:0"
)
_KAFKA_0_11 = _keys(
    "0:3 1:5 2:2 3:4 8:3 9:3 10:1 11:2 12:1 13:1 14:1 15:1 16:1 17:0 18:1 19:2 20:1 21:0 22:0 23:0 24:0 25:0 26:0 "
    "27:0 28:0 29:0 30:0 31:0 32:0 33:0"
)

ProfileName = Literal["kafka-4.3", "textbook", "single", "highest", "kafka-2.3", "kafka-0.11", "pulsar"]
PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        Rules(),
        Rules("textbook", first_sequence="zero_or_45", unissued="59"),
        Rules("single", window=1, first_sequence="zero_or_45", unissued="59", gap="45_until_new_id"),
        Rules("highest", first_sequence="zero_or_45", unissued="59", stale="acknowledge"),
        Rules("kafka-2.3", first_sequence="zero_or_59", state_after_delete="lost", api_versions=_KAFKA_2_3),
        Rules(
            "kafka-0.11", window=1, first_sequence="zero_or_45", state_after_delete="lost",
            api_versions=_KAFKA_0_11,
        ),
        Rules("pulsar", window=1, stale="acknowledge", gap="accept", duplicate="dropped", key="client_id"),
    )
}  # fmt: skip


def profile(name: str, **overrides: Any) -> Rules:
    """Returns a preset, with single rules changed. The ValueError for an unknown profile or rule names the nearest known
    name."""
    if name not in PROFILES:
        raise ValueError(f"there is no profile {name!r}{nearest(name, PROFILES)}")
    rules = PROFILES[name]
    for rule, value in overrides.items():
        rules = rules.with_setting(rule, value)
    return rules
