"""wirebroker accepts and matches clients' regular expressions as RE2/J does. No expression takes long."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.messages.list_transactions import ListTransactionsRequest
from requesting import find_coordinator, init_producer_id
from wirebroker.core.patterns import LONGEST, TOO_LARGE, PatternError, compile_pattern, is_java_pattern
from wirebroker.mock import MockKafka
from wirekit import client

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("data").joinpath("re2j-patterns.json").read_text())
"""Results of RE2/J 1.8, which scripts/record patterns has recorded. Kafka 4.3.1 uses this version of RE2/J."""
DIFFERENT = {r"\é", r"\p{Adlam}", r"\p{Unknown}"}
"""Patterns that RE2 and RE2/J treat differently. RE2 refuses an escaped letter that is not ASCII, and has another Unicode
version.
"""
BOMBS = {
    "stars": "(a+)+", "nested": "((a{1000}){1000}){1000}", "product": "(a{10}){101}",
    "parentheses": "(" * 15_000 + ")" * 15_000, "count": "a{99999999999999999999}", "classes": r"\pL" * 5000,
    "long": "x" * 32_000, "options": "(?:a?){1000}b",
    "empty": "(|" * 8000 + ")" * 8000, "brackets": "[" * 32_000, "fold": "(?i)" + "k" * 30_000,
}  # fmt: skip


def said_of(pattern: str) -> str:
    """Returns a digit for each text in the table: 1 if the pattern matches the text, and 0 if not. If the pattern is refused,
    returns the message."""
    try:
        compiled = compile_pattern(pattern)
    except PatternError as fault:
        return str(fault)
    return "".join("01"[compiled.matches(text)] for text in TABLE["texts"])


def test_each_pattern_matches_the_same_texts_as_in_re2j() -> None:
    patterns = {pattern: said for pattern, said in TABLE["patterns"].items() if pattern not in DIFFERENT}
    matched = {pattern: said for pattern, said in patterns.items() if set(said) <= {"0", "1"}}
    assert len(matched) > 300
    assert {pattern: said_of(pattern) for pattern in matched} == matched
    refused = patterns.keys() - matched.keys()
    assert len(refused) > 300
    assert [pattern for pattern in refused if set(said_of(pattern)) <= {"0", "1"}] == []


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(?=a)b", "invalid or unsupported Perl syntax"),
        ("a**", "invalid nested repetition operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{1001}", "invalid repeat count"),
        ("a{2147483648}", "invalid repeat count"),
        ("[b-a]", "invalid character class range"),
        ("(a", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a)", "regexp/syntax: internal error"),
        ("a\\", "trailing backslash at end of expression"),
        ("(?P<a>b)(?P<a>c)", "duplicate capture group name"),
        ("(?P<a-b>c)", "invalid named capture"),
        ("x" * (LONGEST + 1), TOO_LARGE),
        (r"\pL" * 11, TOO_LARGE),
        ("(.{1000})", TOO_LARGE),
    ],
)
def test_patterns_that_re2j_refuses_are_refused_with_its_messages(pattern: str, said: str) -> None:
    assert TABLE["patterns"].get(pattern, said) == said
    with pytest.raises(PatternError) as refused:
        compile_pattern(pattern)
    assert str(refused.value) == said


def test_a_pattern_learns_in_portions_and_forgets_nothing() -> None:
    pattern = compile_pattern("(a|b)*b(a|b){100}")
    names = [f"{'ab' * i}" for i in range(120)]
    calls = 1
    while not pattern.learn(names, 100_000):
        calls += 1
    assert 10 < calls < 120
    assert pattern.learn(names, 0), "all are known"
    assert pattern.matching(names) == {name for name in names if len(name) > 100}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_pattern_that_would_be_huge_is_refused_at_once(bomb: str, mock_kafka: MockKafka) -> None:
    line = client(mock_kafka)
    for kind in (0, 1):
        line.request(find_coordinator("any", kind=kind), 4)
    line.request(init_producer_id("a" * 2000 + "b", 1000), 1)
    mock_kafka.create_topic("a" * 240 + "b")
    listed = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=BOMBS[bomb])
    joins = ConsumerGroupHeartbeatRequest(
        group_id="team", member_id="one", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_regex=BOMBS[bomb],
        topic_partitions=[],
    )  # fmt: skip
    expected = 0 if bomb in ("stars", "options") else ErrorCode.INVALID_REGULAR_EXPRESSION
    began = time.process_time()
    assert line.request(listed, 2).error_code == expected
    assert line.request(joins, 1).error_code == expected
    assert time.process_time() - began < 1, "too much CPU time (Python's own `re` would never end)"


def test_patterns_of_client_metrics_are_compiled_within_bounds() -> None:
    assert is_java_pattern("b.*")
    assert is_java_pattern("(?=lookahead)")
    for bomb in ("(" * 900 + ")" * 100, "a{99999999999999999999}", "x" * 32_000, "[a"):
        assert not is_java_pattern(bomb)
