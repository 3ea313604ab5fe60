"""A finding of a detector, with the rows that prove it. `KINDS` lists the kinds, the most important first."""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from wirebroker.trace.rows import Row

Kind = Literal[
    "tls_failed", "login_failed", "denied", "unsupported_version", "coordinator_unreachable", "transaction_timed_out",
    "open_transaction", "poison_record", "throttled", "leader_moves", "connection_lost", "rejoins", "retry_storm",
    "slow_broker", "not_committing",
]  # fmt: skip
KINDS: dict[Kind, str] = {
    "tls_failed": "a TLS handshake failed: between a client and the proxy or broker, or between the proxy and a broker",
    "login_failed": "the broker refused a login, or ended a session that was not renewed",
    "denied": "ACLs deny an operation to a principal",
    "unsupported_version": "a client sent a version of an API that the broker does not read",
    "coordinator_unreachable": "a group or a transactional id has no coordinator that responds",
    "transaction_timed_out": "a transaction outlived the timeout that its client had asked for, and the broker aborted it",
    "open_transaction": "a transaction is open, and its producer does nothing any more",
    "poison_record": "a consumer reads the same record again and again",
    "throttled": "a quota holds a client back",
    "leader_moves": "the leader of a partition moves to and fro",
    "connection_lost": "a broker refuses or resets connections, or cannot be reached",
    "rejoins": "a member leaves its group or is removed from it, and joins again, more than once",
    "retry_storm": "a client gets the same error again and again, many times in a second",
    "slow_broker": "responses take long although neither client nor quota asked the broker to wait",
    "not_committing": "a consumer of a group reads and does not commit",
}
"""Every kind with its meaning. A cause precedes its effects, so mend the first finding first."""
FIRST, LAST = 3, 2
"""The numbers of first rows and of latest rows that a finding keeps."""


class Shown(NamedTuple):
    """A row, and its number in the trace, counted from 1."""

    number: int
    row: Row


class Evidence:
    """The rows that prove a finding: their number, and the first and latest of them."""

    __slots__ = ("_first", "_last", "count", "first_time", "last_time")

    def __init__(self) -> None:
        self._first: list[Shown] = []
        self._last: deque[Shown] = deque(maxlen=LAST)
        self.count = 0
        self.first_time = self.last_time = 0

    def add(self, number: int, row: Row) -> None:
        """Add the next row."""
        if not self.count:
            self.first_time = row.time
        self.count += 1
        self.last_time = row.time
        if len(self._first) < FIRST:
            self._first.append(Shown(number, row))
        else:
            self._last.append(Shown(number, row))

    @property
    def rows(self) -> list[Shown]:
        """The rows that are kept, oldest first."""
        return [*self._first, *self._last]

    @property
    def span(self) -> int:
        """The ms from the first row to the latest."""
        return self.last_time - self.first_time


@dataclass(frozen=True, slots=True)
class Finding:
    """What a detector found, in sentences for people."""

    kind: Kind
    sentence: str
    """what happened, to which client, how often and when"""
    cause: str
    """the usual cause"""
    look_at: str
    """the setting or the code to look at"""
    where: str
    """the filter (`trace.filters`) that shows more rows"""
    evidence: Evidence
    weight: float = 0.0
    """of several findings of one kind the one with the larger number comes first"""

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON. `rows` are rows of the trace; `numbers` are their numbers in it, from 1."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "cause": self.cause,
            "look_at": self.look_at,
            "where": self.where,
            "count": self.evidence.count,
            "first": self.evidence.first_time,
            "last": self.evidence.last_time,
            "numbers": [each.number for each in self.evidence.rows],
            "rows": [json.loads(each.row.as_json()) for each in self.evidence.rows],
        }


def command_of(where: str, source: str) -> str:
    """The command that shows the rows of a finding. `source` is a file or the address of a control."""
    if "://" in source:
        return f"curl -s {shlex.quote(f'{source}/trace.jsonl?where={quote(where)}')}"
    return f"wirebroker trace show {shlex.quote(source)} --where {shlex.quote(where)}"


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, the most important first."""
    order = list(KINDS)
    return sorted(findings, key=lambda each: (order.index(each.kind), -each.weight, each.evidence.first_time))
