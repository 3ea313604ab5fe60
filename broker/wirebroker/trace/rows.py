"""The rows of the trace: one class for each event, with its fields.

The JSON of a row has `"event"` and these fields; docs/reference/trace.schema.json is generated from them. Where there is no
value, a numeric field is −1 and a text field is "". Times are in ms since the epoch, by the broker's clock.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Literal

import msgspec

from wirebroker.common.changes import (
    BrokerRow as BrokerRow,
)
from wirebroker.common.changes import (
    FeatureRow as FeatureRow,
)
from wirebroker.common.changes import (
    GroupRow as GroupRow,
)
from wirebroker.common.changes import (
    InSyncRow as InSyncRow,
)
from wirebroker.common.changes import (
    LeaderRow as LeaderRow,
)
from wirebroker.common.changes import (
    Parts,
    spread,
)
from wirebroker.common.changes import (
    ProducerRow as ProducerRow,
)
from wirebroker.common.changes import (
    RestartRow as RestartRow,
)
from wirebroker.common.changes import (
    RetentionRow as RetentionRow,
)
from wirebroker.common.changes import (
    Row as Row,
)
from wirebroker.common.changes import (
    ShareRow as ShareRow,
)
from wirebroker.common.changes import (
    TopicRow as TopicRow,
)
from wirebroker.common.changes import (
    TransactionRow as TransactionRow,
)
from wirebroker.common.changes import (
    UpgradeRow as UpgradeRow,
)
from wirebroker.common.changes import (
    ordinal as ordinal,
)
from wirebroker.requests.facts import Batch

MOST_OFFSETS = 8
"""If a commit has more offsets than this, the row in words shows only this many."""
DELETED = " (deleted)"
"""In the row of a request that names a deleted topic by its id, this text follows the topic's name."""
VerdictName = Literal["accepted", "duplicate", "rejected"]
YEAR_9999 = 253_370_764_800_000
"""The latest time in ms that Python can show as a date in every time zone."""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class _OfConnection(Row, frozen=True):
    node: int
    """the broker that the client is connected to"""
    connection: int
    """the number of the connection, counted from 1; 0 before the connection's TLS handshake is complete"""


class _OfClient(_OfConnection, frozen=True, kw_only=True):
    principal: str = ""
    """the client's principal, as User:name; User:ANONYMOUS before a login or without one; "" if the login does not reveal the
    name
    """
    client_host: str = ""
    """the client's address"""


class ClientRow(_OfClient, frozen=True):
    """A row about a client's request."""

    client_id: str | None
    software: str
    """the name and version of the client's software, from its ApiVersions request; "" if the client sends none"""


def compression_name(codec: int) -> str:
    """Returns the name of a batch's codec, "?" for a codec that Kafka does not have."""
    return COMPRESSIONS[codec] if codec < len(COMPRESSIONS) else "?"


def _first(about: tuple[str, ...]) -> str:
    return about[0] if about else ""


def _more(about: tuple[str, ...]) -> str:
    return f"and {', '.join(about[1:])}" if about[1:] else ""


def _sequences(batch: ProduceRow | Batch) -> str:
    return f"seq {batch.first_sequence}–{batch.last_sequence}" if batch.first_sequence >= 0 else "–"


# Decisions and faults


class ProduceRow(ClientRow, frozen=True):
    """The verdict on one batch of a Produce request."""

    event = "produce"

    version: int
    """the version of the Produce request"""
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
    """the rule that decided the verdict"""
    code: int
    """the error code in the response, 0 without an error"""
    error: str
    """the name of the error code"""
    base_offset: int
    """the base offset in the response; for a duplicate the original offset"""
    note: str
    """a remark if an idempotent batch was sent without acks=all; otherwise empty"""
    explain: str
    """the verdict as a sentence"""
    window: int = 5
    """how many batches of a producer the broker remembers"""

    def parts(self) -> Parts:
        who = f"pid {self.producer_id}/{self.producer_epoch}" if self.producer_id >= 0 else "no pid"
        note = f"  [{self.note}]" if self.note else ""
        middle = f"{who:<12} {_sequences(self):<14} {self.records:>5} rec "
        return f"{self.topic}-{self.partition}", middle, self.verdict, f"{self.explain}{note}"


class ShadowRow(ProduceRow, frozen=True, kw_only=True):
    """A batch that a proxy has forwarded: the real broker's response, and the verdict that the sequence rules predicted."""

    event = "shadow"

    predicted: Literal["accepted", "duplicate", "rejected", "unknown"]
    """the predicted verdict; unknown if the proxy has seen too few batches of the producer"""
    agrees: bool | None
    """whether prediction and response agree; null if there is no prediction, or if the response says nothing about sequences"""

    def parts(self) -> Parts:
        place, middle, verdict, rest = ProduceRow.parts(self)
        return place, middle, verdict, rest if self.agrees is not False else f"PREDICTED {self.predicted.upper()}: {rest}"


class FaultRow(_OfClient, frozen=True):
    """A fault rule fired on a request, or on a connection before the first request (then `api` is "")."""

    event = "fault"

    client_id: str | None
    api: str
    version: int
    correlation_id: int
    kind: str
    """the kind of the rule: lose_ack, error …"""
    rule: str
    """the rule in words"""
    partitions: tuple[str, ...]
    """the partitions on which the rule fired, as topic-partition; empty if it fired on the whole request"""
    number: int
    """how many times the rule has fired, including this time"""
    batch: Batch | None = None
    """the batch of a Produce on which the rule fired"""

    def parts(self) -> Parts:
        what, batch, places = f"{self.api} v{self.version}" if self.api else "connection", self.batch, self.partitions
        if batch is not None:
            places = places or (f"{batch.topic}-{batch.partition}",)
            what = spread(what, f"{_sequences(batch)} {batch.records:>5} rec ")
        return ", ".join(places), what, "fault", f"{self.rule}, for the {ordinal(self.number)} time"


# The wire


class ConnectionRow(_OfConnection, frozen=True):
    """A connection was opened or closed."""

    event = "connection"

    change: Literal["opened", "closed"]
    client_host: str
    listener: str
    software: str
    reason: str
    """why the connection was closed"""
    principal: str = ""
    """who the client is"""
    unanswered: tuple[str, ...] = ()
    """the APIs of the requests that a proxy has forwarded and that got no response, oldest first"""

    def parts(self) -> Parts:
        what = self.software or self.client_host
        waited = f"; unanswered: {', '.join(self.unanswered)}" if self.unanswered else ""
        at = f" of node {self.node}" if self.node >= 0 else ""  # at first, a proxy does not know the node of its first listener
        rest = self.reason or f"by {self.client_host} at {self.listener}{at}"
        return "", what, self.change, rest + waited


class AuthenticationRow(_OfConnection, frozen=True):
    """A client has authenticated or has failed to authenticate, or a client's session has ended."""

    event = "authentication"

    client_host: str
    listener: str
    mechanism: str
    """the SASL mechanism; SSL for a client certificate; "" if the client has not named a mechanism"""
    outcome: Literal["succeeded", "failed", "expired"]
    principal: str
    """the client's principal, as User:name; User:ANONYMOUS without authentication"""
    again: bool
    """whether the connection was authenticated before"""
    expires_at: int
    """when the SASL session ends; −1 if it does not end"""
    reason: str
    """why the authentication failed, in the broker's own words if the broker gives a reason"""
    user: str = ""
    """the user name that the client sent; "" if it sent none, or if the name cannot be read"""

    def parts(self) -> Parts:
        what = f"{self.mechanism or 'authentication'}{' again' if self.again else ''}"
        return "", what, self.outcome, self.reason or f"{self.principal} from {self.client_host} at {self.listener}"


class AuthorizationRow(_OfConnection, frozen=True):
    """A client was denied an operation."""

    event = "authorization"

    principal: str
    """who the client is, as User:name"""
    operation: str
    """the requested operation, as ACLs name it"""
    resource_type: str
    resource: str
    """the name of the resource"""
    reason: str
    """why: the ACL that denies the operation, or a sentence such as "no ACL allows WRITE"; a proxy knows only the error"""

    def parts(self) -> Parts:
        return f"{self.resource_type} {self.resource}", self.operation, "denied", f"{self.principal}: {self.reason}"


class ThrottleRow(_OfConnection, frozen=True):
    """A client has exceeded a quota, and has to wait."""

    event = "throttle"

    client_id: str | None
    principal: str
    """who the client is, as User:name"""
    api: str
    """the API of the request; empty if the client opened a connection beyond a limit"""
    quota: str
    """Kafka's name of the quota; empty in a proxy's rows, because responses do not name the quota"""
    whose: str
    """the entity to which the quota applies, in words"""
    limit: float
    """the limit in the quota's unit; −1 in a proxy's rows"""
    ms: int
    """how long the client has to wait"""
    client_host: str = ""

    def parts(self) -> Parts:
        known = f"{self.quota} of {self.whose} is {self.limit:g}" if self.quota else "the broker throttles it for a quota"
        rest = f"{self.principal} waits {self.ms} ms: {known}"
        return self.client_id or "", self.api or "connection", "throttled", rest


class RequestRow(ClientRow, frozen=True):
    """A request arrived and could be read."""

    event = "request"

    api: str
    version: int
    correlation_id: int
    bytes: int
    """the size of the request, without the four bytes of the size field"""
    about: tuple[str, ...]
    """the names in the request: topic-partition, group …, transaction …"""

    def parts(self) -> Parts:
        return _first(self.about), spread(f"{self.api} v{self.version}", f"{self.bytes:,} B"), "asked", _more(self.about)


class UnsupportedRow(ClientRow, frozen=True):
    """A request has a version that the broker's release does not read, such as a version that Kafka 4.0 dropped (KIP-896)."""

    event = "unsupported"

    api: str
    version: int
    correlation_id: int
    oldest: int
    """the oldest version that the broker reads"""
    newest: int
    """the newest version that the broker reads; −1 if there is no such API"""

    def parts(self) -> Parts:
        what, read = f"{self.api} v{self.version}", f"only versions {self.oldest} to {self.newest} are read"
        who = f"client {self.client_id}" if self.client_id else ""
        if self.newest < 0:
            return who, what, "unknown", "the broker has no such API"
        if self.version > self.newest:
            return who, what, "unknown", f"{read}; this one is newer"
        return who, what, "outdated", f"{read}; Kafka 4.0 dropped the older ones (KIP-896)"


class ReplyRow(ClientRow, frozen=True):
    """A request was answered."""

    event = "reply"

    api: str
    version: int
    correlation_id: int
    bytes: int
    """the size of the response, with the four bytes of the size field"""
    latency: int
    """ms between request and response by the broker's clock; 0 if the response was immediate. In filters, `latency` means this
    latency minus `waited`
    """
    errors: tuple[str, ...]
    """the names of the error codes in the response, each once"""
    about: tuple[str, ...]
    """the names in the request"""
    proxy_us: int = -1
    """µs that the request and the response spent in the proxy; −1 in a broker's rows"""
    upstream_us: int = -1
    """µs from the forwarded request to the first byte of the real broker's response"""
    transfer_us: int = -1
    """µs from the first byte of the real broker's response to the last"""
    waited: int = 0
    """the part of the latency, in ms, in which the broker waited as the request allowed (a Fetch for records, a JoinGroup for
    members), or held back the request because of a quota
    """
    throttle_time_ms: int = 0
    """the throttle time in the response: how long the client has to wait because of a quota"""
    messages: tuple[str, ...] = ()
    """the messages of the errors in the response, each once, at most 8"""
    producer_id: int = -1
    """the id of the producer that the request names, or that the response assigns"""
    producer_epoch: int = -1
    details: dict[str, str | int] = {}
    """further fields of the request and the response, under Kafka's names (`requests.details`)"""

    def parts(self) -> Parts:
        middle = spread(f"{self.api} v{self.version}", f"{self.latency} ms {self.bytes:,} B")
        stages = (
            ""
            if self.upstream_us < 0
            else (f"broker {self.upstream_us:,} µs, transfer {self.transfer_us:,}, proxy {self.proxy_us:,}")
        )
        shown = (", ".join(self.errors), ", ".join(self.messages), _more(self.about), self._remarks(), stages)
        rest = "  ".join(text for text in shown if text)
        return _first(self.about), middle, "error" if self.errors else "answered", rest

    def _remarks(self) -> str:
        """Describes further facts in the request and the response: a coordinator, committed offsets, and how long a quota
        throttles the client.
        """
        throttled = f"throttled for {self.throttle_time_ms} ms" if self.throttle_time_ms > 0 else ""
        waited = f"waited for {self.waited} ms" if self.waited > 0 and self.latency > self.waited else ""
        offsets = str(self.details.get("offsets", ""))
        if offsets.count(", ") >= MOST_OFFSETS:
            offsets = ", ".join(offsets.split(", ")[:MOST_OFFSETS]) + f", {offsets.count(', ') + 1 - MOST_OFFSETS} more"
        committed = f"offsets {offsets}" if offsets else ""
        return ", ".join(filter(None, (str(self.details.get("coordinator", "")), committed, throttled, waited)))


class FetchRow(ClientRow, frozen=True):
    """One partition in the response to a Fetch."""

    event = "fetch"

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

    def parts(self) -> Parts:
        outcome = "error" if self.code else "fetched"
        stable = f", stable {self.last_stable_offset}" if self.committed else ""
        rest = self.error if self.code else f"high watermark {self.high_watermark}{stable}"
        return f"{self.topic}-{self.partition}", spread(f"from {self.offset}", f"{self.bytes:,} B"), outcome, rest


class TelemetryRow(_OfConnection, frozen=True):
    """A client has pushed its own metrics."""

    event = "telemetry"

    client_id: str | None
    client_instance_id: str
    terminating: bool
    """whether the client is terminating, and this is its last push"""
    compression: str
    bytes: int
    """the size of the metrics as sent, that is, after any compression"""

    def parts(self) -> Parts:
        ends = ", and ends" if self.terminating else ""
        return self.client_id or "", f"{self.bytes} B {self.compression}", "pushed", f"{self.client_instance_id}{ends}"


class RunRow(Row, frozen=True):
    """A broker or a proxy started, or a broker was reset. In a new run, connections and producers are numbered from 1 again."""

    event = "run"

    change: Literal["started", "reset"]

    def parts(self) -> Parts:
        return "", "wirebroker", "changed", f"{self.change}; a new run begins"


class TestRow(Row, frozen=True):
    """A test began, after a soft reset. The rows after this row belong to the test."""

    __test__ = False  # otherwise pytest collects the class, because its name begins with Test
    event = "test"

    name: str

    def parts(self) -> Parts:
        return "", "test", "began", self.name


EventName = Literal[
    "produce", "shadow", "fault", "connection", "authentication", "authorization", "throttle", "request", "unsupported",
    "reply", "fetch", "topic", "leader", "isr", "broker", "upgrade", "feature", "producer", "transaction", "group",
    "share", "telemetry", "retention", "restart", "run", "test",
]  # fmt: skip
EVENTS: dict[str, type[Row]] = {
    row.event: row
    for row in (
        ProduceRow, ShadowRow, FaultRow, ConnectionRow, AuthenticationRow, AuthorizationRow, ThrottleRow, RequestRow,
        UnsupportedRow, ReplyRow, FetchRow, TopicRow, LeaderRow, InSyncRow, BrokerRow, UpgradeRow, FeatureRow, ProducerRow,
        TransactionRow, GroupRow, ShareRow, TelemetryRow, RetentionRow, RestartRow, RunRow, TestRow,
    )
}  # fmt: skip
"""Every event, by its name in JSON."""


def row_from_json(row: Any) -> Row:
    """Returns the row that `as_json` wrote. Raises ValueError with a message that names the field that is missing or wrong."""
    if not isinstance(row, dict):
        raise ValueError("it is not a JSON object")
    event = row.get("event", "produce")
    if not isinstance(event, str) or event not in EVENTS:
        raise ValueError(f"there is no event {event!r}")
    return _checked(msgspec.convert(row, EVENTS[event]))


def _checked(made: Row) -> Row:
    if not 0 <= made.time < YEAR_9999:
        raise ValueError(f"time: {made.time!r}")
    return made


_EVENT = re.compile(rb'\s*\{"event": ?"(\w+)"')


@cache
def _decoder(row: type[Row]) -> msgspec.json.Decoder[Row]:
    return msgspec.json.Decoder(row)


def row_from_line(line: bytes) -> Row:
    """Returns the row on a line of a trace, as `row_from_json` does, but faster. Raises ValueError, RecursionError."""
    match = _EVENT.match(line)
    row = EVENTS.get(match[1].decode()) if match is not None else None
    return row_from_json(json.loads(line)) if row is None else _checked(_decoder(row).decode(line))
