"""Profiles and single rules, by name."""

from __future__ import annotations

import pytest

from kafkawire.registry import KEYS
from wirebroker.core.profile import PROFILES, Rules, profile


def test_the_seven_profiles() -> None:
    assert list(PROFILES) == ["kafka-4.3", "textbook", "single", "highest", "kafka-2.3", "kafka-0.11", "pulsar"]
    assert Rules() == PROFILES["kafka-4.3"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka-4.2", "did you mean 'kafka-4.3'"),
        ("texbook", "did you mean 'textbook'"),
        ("zzzzzz", "there are kafka-4.3"),
    ],
)
def test_an_unknown_profile_names_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profile(name)


def test_one_rule_can_be_changed_by_text() -> None:
    assert profile("kafka-4.3").with_setting("window", "3").window == 3
    assert profile("textbook", gap="accept").gap == "accept"


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        ("windw", "3", "did you mean 'window'"),
        ("window", "0", "from 1 up"),
        ("window", "five", "from 1 up"),
        ("gap", "ignore", "45, 45_until_new_id, accept"),
        ("name", "x", "there is no rule 'name'"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(rule: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rules().with_setting(rule, value)


def test_an_old_release_caps_the_versions() -> None:
    old = profile("kafka-0.11").api_versions
    assert old is not None
    assert old[KEYS["Produce"]] == (0, 3)
    assert KEYS["DescribeProducers"] not in old
