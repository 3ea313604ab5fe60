"""Profiles and single rules, by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from msgspec.structs import replace

from kafkawire.registry import KEYS
from wirebroker.core.configs import BrokerConfigs, TopicConfigs
from wirebroker.core.partition import EndMarker, Partition
from wirebroker.core.producers import explain
from wirebroker.core.profile import DEFAULT_PROFILE, PROFILES, ProfileName, Rules, profile
from wirebroker.core.releases import release
from wirebroker.core.releases.changes import RELEASES
from wirebroker.engine.engine import Engine
from wirekit import NOW, batch


def test_the_profiles() -> None:
    own = ["textbook", "single", "highest", "pulsar"]
    assert set(PROFILES) == {*own, *(f"kafka-{name}" for name in RELEASES)} == set(get_args(ProfileName))
    assert Rules() == PROFILES[DEFAULT_PROFILE]
    assert PROFILES["kafka-4.3"].release == "4.3"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka4.3", "did you mean 'kafka-4.3'"),
        ("texbook", "did you mean 'textbook'"),
        ("zzzzzz", f"there are {DEFAULT_PROFILE}"),
        ("3.9", "there is no profile '3.9'; did you mean 'kafka-3.9'"),
        ("kafka-3.9.2", "did you mean 'kafka-3.9'"),
        ("KAFKA-3.9", "did you mean 'kafka-3.9'"),
        ("kafka-3.1", "wirebroker has no profile of Kafka 3.1; the nearest is kafka-3.0$"),
        ("kafka-3.2", "Kafka 3.2; the nearest is kafka-3.3$"),
        ("kafka-3.10", "Kafka 3.10; the nearest is kafka-3.9$"),
        ("kafka-2.0", "Kafka 2.0; the nearest is kafka-2.1$"),
        ("0.8.2.2", "Kafka 0.8; the nearest is kafka-0.1"),
        ("kafka-5.0", "Kafka 5.0; the nearest is kafka-4.4$"),
        (3.9, "the name of a profile must be a string such as 'kafka-4.4', not 3.9"),
        (["kafka-3.9"], "the name of a profile must be a string"),
    ],
)
def test_an_unknown_profile_names_the_nearest(name: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profile(name)


def test_one_rule_can_be_changed_by_text() -> None:
    assert profile("kafka-4.3").with_setting("window", "3").window == 3
    assert profile("textbook", gap="accept").gap == "accept"


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        ("windw", "3", "did you mean 'window'"),
        ("window", "0", "at least 1"),
        ("window", "five", "at least 1"),
        ("gap", "ignore", "45, 45_until_new_id, accept"),
        ("name", "x", "there is no rule 'name'"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(rule: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rules().with_setting(rule, value)


def test_an_old_release_caps_the_versions() -> None:
    old = release(profile("kafka-0.11").release).announced
    assert old[KEYS["Produce"]] == (0, 3)
    assert KEYS["DescribeProducers"] not in old


class Dialogue:
    """A partition with certain rules. It remembers the response to each batch."""

    def __init__(self, rules: Rules) -> None:
        self.partition = Partition("orders", 0, [1], TopicConfigs(BrokerConfigs({}), {}), rules, NOW)
        self.responses: list[tuple[int, int, str]] = []

    def send(self, *sequences: int, client_id: str = "a", pid: int = 7, issued: bool = True) -> None:
        for sequence in sequences:
            data = memoryview(batch(sequence, pid=pid, epoch=0, timestamp=NOW))
            got = self.partition.append(data, NOW, 9, client_id=client_id, issued=lambda _: issued)
            assert got.header is not None
            why = explain(got.verdict, got.header, got.state_before, "orders", 0)  # type: ignore[arg-type]
            self.responses.append((got.error_code, got.base_offset, why))

    def begin_transaction_at(self, sequence: int) -> None:
        self.partition.start_verification(7, sequence, 0, True, NOW)
        data = memoryview(batch(sequence, pid=7, epoch=0, timestamp=NOW, transactional=True))
        got = self.partition.append(data, NOW, 9, verified=True)
        self.responses.append((got.error_code, got.base_offset, ""))

    def delete_records(self) -> None:
        self.partition.delete_records(self.partition.log_end_offset, NOW)


def _retry(dialogue: Dialogue) -> None:
    dialogue.send(0, 1, 1)


def _retry_before_a_window_of_five(dialogue: Dialogue) -> None:
    dialogue.send(*range(8), 7, 5, 0)


def _first_is_not_zero(dialogue: Dialogue) -> None:
    dialogue.send(5)


def _id_was_never_issued(dialogue: Dialogue) -> None:
    dialogue.send(0, pid=99, issued=False)


def _gap(dialogue: Dialogue) -> None:
    dialogue.send(0, 3, 1)


def _another_producer_of_the_same_client(dialogue: Dialogue) -> None:
    dialogue.send(0)
    dialogue.send(0, pid=8)


def _records_are_deleted(dialogue: Dialogue) -> None:
    dialogue.send(0, 1)
    dialogue.delete_records()
    dialogue.send(1)


def _only_a_marker_is_stored(dialogue: Dialogue) -> None:
    dialogue.partition.append_marker(EndMarker(7, 0, False, 0, 0), NOW)
    dialogue.send(3)


def _transaction_starts_later(dialogue: Dialogue) -> None:
    dialogue.begin_transaction_at(3)


DIALOGUES: dict[str, Callable[[Dialogue], None]] = {
    "window": _retry_before_a_window_of_five,
    "first_sequence": _first_is_not_zero,
    "after_marker": _only_a_marker_is_stored,
    "transaction_start": _transaction_starts_later,
    "unissued": _id_was_never_issued,
    "stale": _retry_before_a_window_of_five,
    "gap": _gap,
    "duplicate": _retry,
    "key": _another_producer_of_the_same_client,
    "state_after_delete": _records_are_deleted,
}
"""A dialogue for each rule. The outcome of the dialogue depends on the rule's value."""


def outcome(rule: str, rules: Rules) -> Any:
    """Plays the dialogue for a rule. Returns all responses that the producer gets."""
    if rule == "release":
        engine = Engine(NOW, random.Random(5).randbytes, rules=rules)
        return engine.cluster.brokers[1].versions, engine.configs.release.features
    dialogue = Dialogue(rules)
    assert rule in DIALOGUES, f"DIALOGUES lacks a dialogue whose outcome depends on the rule {rule}"
    DIALOGUES[rule](dialogue)
    return dialogue.responses


def _values(rule: str) -> tuple[Any, ...]:
    hint = get_type_hints(Rules)[rule]
    if get_origin(hint) is Literal:
        return get_args(hint)
    several = {"window": (1, 2, 5), "release": RELEASES}
    assert rule in several, f"_values lacks some values of the rule {rule}"
    return several[rule]


RULES = [name for name in Rules.__struct_fields__ if name != "name"]


@pytest.mark.parametrize("rule", RULES)
def test_every_value_of_every_rule_changes_a_response(rule: str) -> None:
    outcomes = [outcome(rule, replace(Rules(), **{rule: value})) for value in _values(rule)]
    assert all(one != other for i, one in enumerate(outcomes) for other in outcomes[:i]), outcomes


DIFFERENCES = [
    (rules.name, rule)
    for rules in PROFILES.values()
    for rule in RULES
    if getattr(rules, rule) != getattr(Rules(), rule) and (rule != "transaction_start" or rules.first_sequence == "any")
]


@pytest.mark.parametrize(("name", "rule"), DIFFERENCES)
def test_every_difference_of_a_profile_changes_a_response(name: str, rule: str) -> None:
    without = replace(profile(name), **{rule: getattr(Rules(), rule)})
    assert outcome(rule, profile(name)) != outcome(rule, without)


def test_a_dropped_retry_gets_no_offset_and_is_explained() -> None:
    (_, _, (code, offset, why)) = outcome("duplicate", Rules(duplicate="dropped"))
    assert (code, offset) == (0, -1)
    assert why == (
        "dropped: sequence 1 of producer 7 epoch 0 on orders-0 is batch 1 of 2 in the window, counted from the newest;"
        " not stored again; acknowledged with offset −1"
    )
