"""A rule that matches a request, and all rules that match it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.declare import Message
from wirebroker.faults.rules import Rule
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import TopicPartition, Where


class MatchedRule(NamedTuple):
    """A rule that matches a request, with the matching partitions (None: all) and the matching batches of a Produce."""

    rule: Rule
    only: Where | None
    batches: list[Batch | None]

    def without(self, gone: Where) -> MatchedRule:
        """Returns the match on the partitions that are still in the request."""
        only = None if self.only is None else self.only - gone
        batches = [each for each in self.batches if each is None or (each.topic, each.partition) not in gone]
        return MatchedRule(self.rule, only, [] if only is not None and not only else batches)


@dataclass(slots=True)
class Matches:
    """The rules that match one request and its response, and their results so far."""

    facts: Facts
    before: list[MatchedRule] = field(default_factory=list)
    """Matches that have not acted yet, and act before the request is handled,"""
    after: list[MatchedRule] = field(default_factory=list)
    """on the response,"""
    wire: list[MatchedRule] = field(default_factory=list)
    """and on its bytes."""
    overwrites: list[tuple[int, Where | None]] = field(default_factory=list)
    """The errors for the response, with their partitions. These errors are set before any other change of the response."""
    refused: Message | None = None
    """The response for the partitions that were not handled."""
    gone: Where = frozenset()
    """The partitions that were not handled."""
    slow: dict[TopicPartition, int] = field(default_factory=dict)
    """The time in ms that a write to these partitions takes."""
    slow_rule: Rule | None = None
    """The rule that made the write slow; of several rules, the last."""
    failing: list[tuple[MatchedRule, TopicPartition]] = field(default_factory=list)
    """The partitions whose write must fail."""
    crashes: bool = False
    """Tells whether the broker is killed once the request is handled."""

    @property
    def needs_outcome(self) -> bool:
        """Tells whether a fault waits for the request to be handled: a failing or slow write, or a crash."""
        return bool(self.failing) or self.crashes or self.slow_rule is not None
