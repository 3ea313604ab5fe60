"""The match of a rule with a request, and all matches of a request."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from kafkawire.declare import Message
from wirebroker.faults.rules import Rule
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import TopicPartition, Where


class MatchedRule(NamedTuple):
    """A rule that matches a request. `only` are the matching partitions, or None for all partitions. `batches` are the matching
    batches if the request is a Produce."""

    rule: Rule
    only: Where | None
    batches: list[Batch | None]

    def without(self, gone: Where) -> MatchedRule:
        """Returns the same match without the partitions `gone`, which are no longer in the request."""
        only = None if self.only is None else self.only - gone
        batches = [each for each in self.batches if each is None or (each.topic, each.partition) not in gone]
        return MatchedRule(self.rule, only, [] if only is not None and not only else batches)


class Matches(Struct):
    """The rules that match one request and its response, and their results so far."""

    facts: Facts
    before: list[MatchedRule] = []
    """The rules that act before the request is handled, and have not acted yet."""
    after: list[MatchedRule] = []
    """The rules that act on the response."""
    wire: list[MatchedRule] = []
    """The rules that act on the bytes of the response."""
    overwrites: list[tuple[int, Where | None]] = []
    """The errors to set in the response, with their partitions. These errors are set before other rules change the response."""
    refused: Message | None = None
    """The part of the response for the partitions `gone`."""
    gone: Where = frozenset()
    """The partitions that are not handled, because a rule has refused them."""
    slow: dict[TopicPartition, int] = {}
    """For each partition with a slow write, the duration of the write in ms."""
    slow_rule: Rule | None = None
    """The last rule that has made the write slow."""
    failing: list[tuple[MatchedRule, TopicPartition]] = []
    """The rules that make a write fail, each with the partition of the write."""
    crashes: bool = False
    """Tells whether the broker is killed as soon as the request is handled."""

    @property
    def needs_outcome(self) -> bool:
        """Tells whether a rule has to act immediately after the request was handled. Failing writes, slow writes and crashes
        are such rules."""
        return bool(self.failing) or self.crashes or self.slow_rule is not None
