"""The rows of the trace: one class for each event, with the fields that are valid for it and no others.

What is written as JSON is `{"event": …}` and these fields; docs/trace.schema.json is made of them. −1 stands for "none"
in numbers, "" in text. Times are ms since the epoch, by the broker's clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

VerdictName = Literal["accepted", "duplicate", "rejected"]
YEAR_9999 = 253_370_764_800_000
"""Times from here on are no dates that Python can show in every time zone."""


@dataclass(frozen=True, slots=True)
class Row:
    """An event."""

    event: ClassVar[str]

    time: int

    def as_json(self) -> str:
        """One JSON object on one line."""
        return json.dumps({"event": self.event} | {f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """The row that `as_json` wrote; KeyError names a field that is missing, ValueError one that has no such value."""
        values: dict[str, Any] = {}
        for name, fits in _checks(cls.event).items():
            value = row[name]
            if not fits(value):
                raise ValueError(f"{name}: {value!r}")
            values[name] = tuple(value) if isinstance(value, list) else value
        if not 0 <= values["time"] < YEAR_9999:
            raise ValueError(f"time: {values['time']!r}")
        return cls(**values)


@cache
def _checks(event: str) -> dict[str, Callable[[Any], bool]]:
    """Which values each field of an event can have."""
    row = EVENTS[event]
    hints = get_type_hints(row)
    return {field.name: _check(hints[field.name]) for field in fields(row)}


def _check(hint: Any) -> Callable[[Any], bool]:
    if get_origin(hint) is Literal:
        words = frozenset(get_args(hint))
        return lambda value: isinstance(value, str) and value in words
    if get_origin(hint) is tuple:
        fits = _check(get_args(hint)[0])
        return lambda value: isinstance(value, list) and all(map(fits, value))
    kinds = get_args(hint) or (hint,)
    return lambda value: type(value) in kinds


# What was decided


@dataclass(frozen=True, slots=True)
class ProduceRow(Row):
    """One partition of one Produce request and what was decided of it."""

    event = "produce"

    node: int
    """the broker that was asked"""
    connection: int
    """number of the connection, counted from 1"""
    client_id: str | None
    software: str
    """what the client calls itself in ApiVersions, "" if it did not"""
    version: int
    """of the Produce request"""
    correlation_id: int
    acks: int
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    records: int
    bytes: int
    compression: str
    transactional: bool
    verdict: VerdictName
    rule: str
    """which rule decided"""
    code: int
    """the error code in the answer, 0 if there is none"""
    error: str
    """its name"""
    base_offset: int
    """the offset in the answer; of a duplicate the original one"""
    note: str
    """a remark that is no verdict: an idempotent batch sent with acks other than all"""
    explain: str
    """the verdict as a sentence"""


@dataclass(frozen=True, slots=True)
class FaultRow(Row):
    """A rule that struck a request, or a connection before there was one (`api` is "" then)."""

    event = "fault"

    node: int
    connection: int
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    kind: str
    """what the rule does: lose_ack, error …"""
    rule: str
    """the rule in words"""
    partitions: tuple[str, ...]
    """those that it struck, as topic-partition; empty if it struck the whole request"""
    number: int
    """how often the rule has struck, this time included"""


# What went over the wire


@dataclass(frozen=True, slots=True)
class ConnectionRow(Row):
    """A connection was made, or is gone."""

    event = "connection"

    node: int
    connection: int
    change: Literal["opened", "closed"]
    client_host: str
    listener: str
    software: str
    reason: str
    """why it was closed"""


@dataclass(frozen=True, slots=True)
class RequestRow(Row):
    """A request arrived and could be read."""

    event = "request"

    node: int
    connection: int
    client_id: str | None
    software: str
    api: str
    version: int
    correlation_id: int
    bytes: int
    """without the four that say how many"""
    about: tuple[str, ...]
    """what it names: topic-partition, group …, transaction …"""


@dataclass(frozen=True, slots=True)
class ReplyRow(Row):
    """A request was answered."""

    event = "reply"

    node: int
    connection: int
    client_id: str | None
    software: str
    api: str
    version: int
    correlation_id: int
    bytes: int
    """with the four that say how many"""
    latency: int
    """ms since the request arrived, by the broker's clock: how long it waited, 0 if it was answered at once"""
    errors: tuple[str, ...]
    """the names of the error codes in the answer, each once"""
    about: tuple[str, ...]
    """what the request names"""


@dataclass(frozen=True, slots=True)
class FetchRow(Row):
    """One partition in the answer to a Fetch."""

    event = "fetch"

    node: int
    connection: int
    client_id: str | None
    software: str
    version: int
    correlation_id: int
    topic: str
    partition: int
    offset: int
    """that was asked for"""
    bytes: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    committed: bool
    """whether it was read_committed"""
    code: int
    error: str


# What changed


@dataclass(frozen=True, slots=True)
class TopicRow(Row):
    """A topic was created or deleted, or has more partitions."""

    event = "topic"

    change: Literal["created", "grown", "deleted"]
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class LeaderRow(Row):
    """A partition has a new leader epoch, perhaps another leader; −1 if it has none."""

    event = "leader"

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class InSyncRow(Row):
    """Other replicas of a partition are in sync than before."""

    event = "isr"

    topic: str
    partition: int
    in_sync: tuple[int, ...]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class BrokerRow(Row):
    """A broker was killed, or started again."""

    event = "broker"

    change: Literal["killed", "started"]
    node: int


@dataclass(frozen=True, slots=True)
class ProducerRow(Row):
    """A partition knows a producer from now on, has seen its epoch rise, or has forgotten it."""

    event = "producer"

    change: Literal["created", "epoch", "expired"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionRow(Row):
    """A transactional id was written down with a new state, epoch or set of partitions."""

    event = "transaction"

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRow(Row):
    """A group entered a state, or a new generation (of a consumer group its epoch)."""

    event = "group"

    group: str
    state: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class RetentionRow(Row):
    """Retention deleted what was before `log_start_offset`."""

    event = "retention"

    topic: str
    partition: int
    before: int
    """the log start offset until then"""
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class RestartRow(Row):
    """The brokers stopped and started again."""

    event = "restart"

    mode: str


EVENTS: dict[str, type[Row]] = {
    row.event: row
    for row in (
        ProduceRow, FaultRow, ConnectionRow, RequestRow, ReplyRow, FetchRow, TopicRow, LeaderRow, InSyncRow,
        BrokerRow, ProducerRow, TransactionRow, GroupRow, RetentionRow, RestartRow,
    )
}  # fmt: skip
"""Every event, by the name that its JSON has."""


def row_from_json(row: dict[str, Any]) -> Row:
    """A row of any event; KeyError names a field that is missing, or an event that does not exist, ValueError a value."""
    return EVENTS[row.get("event", "produce")].from_json(row)
