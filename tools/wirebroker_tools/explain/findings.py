"""A finding of a detector, with the rows that prove the finding. `KINDS` lists the kinds of findings, the most important
first."""

from __future__ import annotations

import json
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from msgspec import Struct

from wirebroker.trace.rows import Row
from wirebroker.trace.selection import NAMES, topics_of, values_of

Kind = Literal[
    "tls_failed", "login_failed", "denied", "unsupported_version", "coordinator_unreachable", "transaction_timed_out",
    "open_transaction", "poison_record", "throttled", "leader_moves", "connection_lost", "rejoins", "retry_storm",
    "slow_broker", "not_committing",
]  # fmt: skip
KINDS: dict[Kind, str] = {
    "tls_failed": "a client's TLS handshake failed, or the proxy's TLS handshake with a broker failed",
    "login_failed": "the broker refused a login, or ended a session that was not renewed",
    "denied": "ACLs deny an operation to a principal, or an error refuses a client's request for good",
    "unsupported_version": "a client sent a request in a version that the broker does not support",
    "coordinator_unreachable": "a group or a transactional id has no coordinator that responds",
    "transaction_timed_out": "a transaction outlived the timeout that its client had asked for, and the broker aborted it",
    "open_transaction": "a transaction is open, and its producer has become inactive",
    "poison_record": "a consumer reads the same record again and again",
    "throttled": "a client is throttled by a quota, or by a fault of the test",
    "leader_moves": "the leader of a partition moves back and forth",
    "connection_lost": "a broker refuses or resets connections, or cannot be reached",
    "rejoins": "a member leaves its group or is removed from it, and joins again, more than once",
    "retry_storm": "a client gets the same error again and again: many times in a second, or for a long time without a success",
    "slow_broker": "responses take long, although neither the client nor a quota made the broker wait",
    "not_committing": "a consumer of a group reads records and does not commit offsets",
}
"""Every kind of finding with its meaning. A problem of one kind can cause problems of the later kinds, so users should begin
with the first finding.
"""
FIRST, LAST = 3, 2
"""A finding keeps this many of its first rows, and this many of its latest rows."""


AROUND = 1000
"""The commands in a finding also show the rows up to this many ms before and after it."""
LONGEST_SEQUENCE = 5_000
"""A sequence diagram shows at most this many ms, because a longer diagram would fill many pages."""
ABOUT: Mapping[str, Callable[[Row], Iterable[Any]]] = {
    "client": NAMES["client"],
    "principal": NAMES["principal"],
    "host": values_of("client_host"),
    "group": NAMES["group"],
    "transaction": NAMES["transaction"],
    "topic": lambda row: [topic for topic, partition in topics_of(row) if partition is not None or hasattr(row, "topic")],
}
"""For each field of filters: the function that returns the field's values in a row."""


class Shot(NamedTuple):
    """A picture of a finding: the kind of picture, its subject, and the filter for its rows."""

    kind: Literal["sequence", "log", "groups", "windows"]
    of: str = ""
    where: str = ""
    whole: bool = False
    """true if the finding has so few rows that a sequence diagram can show its whole time"""

    def flags(self, window: tuple[int, int]) -> str:
        """Returns the flags of `trace show` that draw the picture."""
        since, until = window
        if self.kind == "sequence" and not self.whole:
            until = min(until, since + LONGEST_SEQUENCE)
        of = f" --of {shlex.quote(self.of)}" if self.of else ""
        where = f" --where {shlex.quote(self.where)}" if self.where else ""
        return f"--picture {self.kind}{of}{where} {_times(since, until)}"


class Shown(NamedTuple):
    """A row and the row's number in the trace, counted from 1."""

    number: int
    row: Row


class Evidence:
    """The rows that prove a finding. Only their number, the first rows and the latest rows are kept."""

    __slots__ = ("_first", "_last", "count", "first_time", "last_time")

    def __init__(self) -> None:
        self._first: list[Shown] = []
        self._last: deque[Shown] = deque(maxlen=LAST)
        self.count = 0
        self.first_time = self.last_time = 0

    def add(self, number: int, row: Row) -> None:
        """Add a row. A detector may learn later that an earlier row belongs to its finding."""
        self.first_time = min(self.first_time, row.time) if self.count else row.time
        self.count += 1
        self.extend(row.time)
        if len(self._first) < FIRST:
            self._first.append(Shown(number, row))
        else:
            self._last.append(Shown(number, row))

    def extend(self, time: int) -> None:
        """Remember that the problem lasted until `time`."""
        self.last_time = max(self.last_time, time)

    @classmethod
    def merged(cls, parts: Iterable[Evidence]) -> Evidence:
        """Returns one evidence that has the rows of all `parts`. Each row may be in only one of the parts."""
        found, parts = cls(), [each for each in parts if each.count]
        shown = sorted(shown for each in parts for shown in each.rows)
        for each in shown if len(shown) <= FIRST + LAST else [*shown[:FIRST], *shown[-LAST:]]:
            found.add(*each)
        found.count = sum(each.count for each in parts)
        found.first_time = min((each.first_time for each in parts), default=0)
        found.last_time = max((each.last_time for each in parts), default=0)
        return found

    @property
    def rows(self) -> list[Shown]:
        """The kept rows, the oldest first."""
        return sorted([*self._first, *self._last], key=lambda each: each.number)

    @property
    def span(self) -> int:
        """The time from the first row to the latest row, in ms."""
        return self.last_time - self.first_time


class Finding(Struct, frozen=True):
    """Something that a detector found, in sentences that people can read."""

    kind: Kind
    sentence: str
    """what happened to which client, how often and when"""
    cause: str
    """the usual cause"""
    look_at: str
    """the setting or the code to look at"""
    where: str
    """the filter (`trace.filters`) for all rows that belong to the finding"""
    evidence: Evidence
    weight: float = 0.0
    """the rank among findings of the same kind: the finding with the largest weight comes first"""
    picture: Shot | None = None
    """the picture that shows the finding best"""
    began: int = 0
    """the time at which the problem began, if it began before the finding's first row; else 0"""

    @property
    def window(self) -> tuple[int, int]:
        """The time of the finding, extended to whole seconds: begin and end in ms since the epoch."""
        began = min(self.began or self.evidence.first_time, self.evidence.first_time)
        return (began - AROUND) // 1000 * 1000, -(-(self.evidence.last_time + AROUND) // 1000) * 1000

    def as_json(self) -> dict[str, Any]:
        """Returns the finding as JSON. `rows` has the finding's rows, and `numbers` has the numbers of these rows in the trace,
        counted from 1. `about` has the names in these rows, by kind. `picture` has the flags of `trace show` that draw the
        finding."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "cause": self.cause,
            "look_at": self.look_at,
            "where": self.where,
            "about": names_in(self.evidence.rows),
            "since": self.window[0],
            "until": self.window[1],
            "picture": self.picture.flags(self.window) if self.picture is not None else "",
            "count": self.evidence.count,
            "first": self.evidence.first_time,
            "last": self.evidence.last_time,
            "numbers": [each.number for each in self.evidence.rows],
            "rows": [json.loads(each.row.as_json()) for each in self.evidence.rows],
        }


def names_in(rows: Iterable[Shown]) -> dict[str, list[str]]:
    """Returns the names in the rows by kind: clients, principals, hosts, groups, topics and so on. A kind that has no name is
    left out."""
    found: dict[str, dict[str, None]] = {kind: {} for kind in ABOUT}
    for _, row in rows:
        for kind, read in ABOUT.items():
            found[kind].update(dict.fromkeys(str(each) for each in read(row) if each))
    return {kind: list(names) for kind, names in found.items() if names}


def command_of(finding: Mapping[str, Any], source: str) -> str:
    """Returns the command that shows the rows of `finding`. `finding` has the form of `Finding.as_json`. `source` is a trace
    file or the address of a control server.
    """
    if "://" in source:
        url = f"{source}/trace.jsonl?where={quote(finding['where'])}"
        return f"curl -s {shlex.quote(url)}"
    where = f"--where {shlex.quote(finding['where'])}"
    return f"wirebroker trace show {shlex.quote(source)} {where} {_times(finding['since'], finding['until'])}"


def picture_of(finding: Mapping[str, Any], source: str) -> str:
    """Returns the command that draws a finding, or "" if the finding has no picture or the source is not a file."""
    if "://" in source or not finding["picture"]:
        return ""
    return f"wirebroker trace show {shlex.quote(source)} {finding['picture']} --out {finding['kind']}.svg"


def _times(since: int, until: int) -> str:
    return " ".join(
        f"{flag} {datetime.fromtimestamp(ms // 1000).isoformat()}" for flag, ms in (("--since", since), ("--until", until))
    )


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings, the most important first."""
    order = list(KINDS)
    return sorted(findings, key=lambda each: (order.index(each.kind), -each.weight, each.evidence.first_time))
