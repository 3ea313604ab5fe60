"""The rows of the trace: one class for each event, with its fields.

The JSON of a row is `{"event": …}` and these fields; docs/trace.schema.json is made from them. −1 stands for "none" in
numbers, "" in text. Times are ms since the epoch, by the broker's clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

VerdictName = Literal["accepted", "duplicate", "rejected"]
YEAR_9999 = 253_370_764_800_000
"""Python cannot show later times as dates in every time zone."""


@dataclass(frozen=True, slots=True)
class Row:
    """An event."""

    event: ClassVar[str]

    time: int

    def as_json(self) -> str:
        """One JSON object on one line."""
        return json.dumps({"event": self.event} | msgspec.to_builtins(self))


# Decisions and faults


@dataclass(frozen=True, slots=True)
class ProduceRow(Row):
    """The verdict on one batch of a Produce request."""

    event = "produce"

    node: int
    """the broker that received the request"""
    connection: int
    """number of the connection, counted from 1"""
    client_id: str | None
    software: str
    """the client's software as it names itself in ApiVersions, "" if it does not"""
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
    """the offset in the answer; for a duplicate the original one"""
    note: str
    """a remark beside the verdict: an idempotent batch was sent with acks other than all"""
    explain: str
    """the verdict as a sentence"""


@dataclass(frozen=True, slots=True)
class FaultRow(Row):
    """A rule struck a request, or a connection before there was a request (`api` is "" then)."""

    event = "fault"

    node: int
    connection: int
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    kind: str
    """the kind of the rule: lose_ack, error …"""
    rule: str
    """the rule in words"""
    partitions: tuple[str, ...]
    """the partitions that it struck, as topic-partition; empty if it struck the whole request"""
    number: int
    """how often the rule has struck, including this time"""


# The wire


@dataclass(frozen=True, slots=True)
class ConnectionRow(Row):
    """A connection was opened or closed."""

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
    """without the four bytes of its size"""
    about: tuple[str, ...]
    """the names in it: topic-partition, group …, transaction …"""


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
    """with the four bytes of its size"""
    latency: int
    """ms between request and answer by the broker's clock; 0 if it was answered at once"""
    errors: tuple[str, ...]
    """the names of the error codes in the answer, each once"""
    about: tuple[str, ...]
    """the names in the request"""


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
    """the offset that the request asks for"""
    bytes: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    committed: bool
    """whether the isolation level is read_committed"""
    code: int
    error: str


# Changes


@dataclass(frozen=True, slots=True)
class TopicRow(Row):
    """A topic was created or deleted, or got more partitions."""

    event = "topic"

    change: Literal["created", "grown", "deleted"]
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class LeaderRow(Row):
    """A partition has a new leader epoch, and perhaps another leader; −1 stands for no leader."""

    event = "leader"

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class InSyncRow(Row):
    """The in-sync replicas of a partition changed."""

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
    """A partition got to know a producer, saw its epoch rise, or forgot it."""

    event = "producer"

    change: Literal["created", "epoch", "expired"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionRow(Row):
    """The state, epoch or partitions of a transactional id changed, and the change was written down."""

    event = "transaction"

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRow(Row):
    """A group entered a state or a new generation; for a consumer group the generation is its epoch."""

    event = "group"

    group: str
    state: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class RetentionRow(Row):
    """Retention deleted the records before `log_start_offset`."""

    event = "retention"

    topic: str
    partition: int
    before: int
    """the log start offset before that"""
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
    """The row that `as_json` wrote. Raises ValueError, which names the field that is missing or has a wrong value."""
    event = row.get("event", "produce")
    if event not in EVENTS:
        raise ValueError(f"there is no event {event!r}")
    made = msgspec.convert(row, EVENTS[event])
    if not 0 <= made.time < YEAR_9999:
        raise ValueError(f"time: {made.time!r}")
    return made
