"""Describes what a pipeline promises: how many outputs each input has, and which records may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wirebroker.audit.findings import plural
from wirebroker_audit.checks.against_table import Description
from wirebroker_audit.reading.identities import Condition, Part, Wanted

TRANSACTION = "transaction"
"""The `match` that counts the inputs and outputs of each transaction."""
IN, OUT = 0, 1
"""The sides of a pipeline."""
BEGINS = ("earliest", "latest")
ISOLATIONS = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline from topics to topics, or to a table."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    match: Part | None
    """the part that an input and its outputs have in common; None if they share only a transaction"""
    table: Description | None = None
    match_out: Part | None = None
    """the part of an output that holds the identity of its input; if None, `match` is this part, too"""
    group: str | None = None
    fan_out: tuple[int, int | None] = (1, 1)
    """the smallest and the largest number of outputs of an input; None: any number"""
    may_drop: bool | Condition = False
    """whether an input may have no output"""
    may_merge: bool = False
    """whether several inputs with the same identity may have one output"""
    order: bool | Part = True
    """whether outputs must have the order of their inputs; a part means yes, and distinguishes inputs with the same identity"""
    begin: str = BEGINS[0]
    """latest: inputs before the first processed input do not count"""
    isolation: str = ISOLATIONS[0]
    """the isolation level of the pipeline's consumers"""

    @property
    def part(self) -> Part | None:
        """The part of a record that distinguishes inputs with the same identity. If inputs are matched by their keys, the
        default is the value."""
        if isinstance(self.order, Part):
            return self.order
        return Part("value") if self.order and self.match == Part("key") and self.table is None else None

    def wanted(self, number: int) -> list[tuple[str, Wanted]]:
        """Returns the pipeline's topics, each with the parts of its records that must be read. `number` is the number of the
        pipeline in the rows that are read."""
        assert self.match is not None
        condition = self.may_drop if isinstance(self.may_drop, Condition) else None
        into = Wanted(number, IN, self.match, self.part, bool(self.order) and self.table is None, condition)
        out = Wanted(number, OUT, self.match_out or self.match, self.part)
        return [*((topic, into) for topic in self.inputs), *((topic, out) for topic in self.outputs)]


FOREVER = 1 << 62


class Facts(NamedTuple):
    """Facts about a pipeline that its records do not show."""

    group: str | None
    """the group of consumers, if it is known"""
    reached: dict[tuple[str, int], int]
    """the highest offset that the group has committed"""
    removed_inputs: int
    """the number of offsets that retention or compaction removed"""
    removed_outputs: int
    is_damaged: bool
    """whether some batches of the pipeline's topics could not be read"""
    until_ms: int = FOREVER
    """if a transaction ended after this time, the commit of its offsets may not have been read"""
    unread: frozenset[str] = frozenset()
    """the pipeline's topics with a segment or a partition that could not be read"""


_WORDS = {
    "unprocessed": "without output", "processed_twice": "processed twice", "without_input": "outputs without input",
    "out_of_order": "out of order", "in_flight": "may still be processed", "dropped": "dropped",
    "before_begin": "before the first processed input", "inputs_removed": "outputs whose inputs may be removed",
    "outputs_removed": "inputs whose outputs may be removed", "inputs_unread": "outputs whose inputs may be unread",
    "outputs_unread": "inputs whose outputs may be unread", "inputs_without_id": "inputs without identity",
    "outputs_without_id": "outputs without identity",
}  # fmt: skip


def sentence(row: Mapping[str, Any]) -> str:
    """Takes a pipeline's row of the summary, and sums up the pipeline's records in words."""
    counts: Mapping[str, int] | None = row.get("records")
    if counts is None:
        return f"pipeline {row['name']}: nothing was compared"
    told = [f"{words} {counts[name]:,}" for name, words in _WORDS.items() if counts[name]]
    made = f"{plural(counts['inputs'], 'input')}, {plural(counts['outputs'], 'output')}"
    return f"pipeline {row['name']}: {made}; {', '.join(told) or 'each input was processed as it should be'}"
