"""A row as one aligned line: time, connection, topic or group, the request, its outcome and the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

from wirebroker.trace.rows import (
    BrokerRow,
    ConnectionRow,
    FaultRow,
    FetchRow,
    GroupRow,
    InSyncRow,
    LeaderRow,
    ProduceRow,
    ProducerRow,
    ReplyRow,
    RequestRow,
    RestartRow,
    RetentionRow,
    Row,
    TopicRow,
    TransactionRow,
)

COLOURS = {
    "accepted": "\x1b[32m", "duplicate": "\x1b[33m", "rejected": "\x1b[31m", "fault": "\x1b[35m", "error": "\x1b[31m",
    "opened": "\x1b[36m", "closed": "\x1b[36m", "changed": "\x1b[36m",
}  # fmt: skip
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
PLACE, MIDDLE, OUTCOME = 20, 37, 9

Parts = tuple[str, str, str, str]
"""The topic or group, the request, the outcome in a word, and the rest."""


def has_colour(stream: TextIO) -> bool:
    """Whether to colour what is written there: a terminal, unless NO_COLOR is set."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def time_of_day(ms: int) -> str:
    """ms since the epoch as local time, `12:30:05.250`."""
    return f"{datetime.fromtimestamp(ms // 1000):%H:%M:%S}.{ms % 1000:03d}"


def line(row: Row, colour: bool = False) -> str:
    """A row as one aligned line."""
    when = time_of_day(row.time)
    number = getattr(row, "connection", None)
    connection = f"#{number:<3}" if number is not None else " " * 4
    place, middle, outcome, rest = _PARTS[type(row)](row)
    word = f"{outcome:<{OUTCOME}}"
    if colour:
        word = f"{COLOURS.get(outcome, DIM)}{word}{PLAIN}"
    return f"{when}  {connection} {place:<{PLACE}} {middle:<{MIDDLE}} {word}  {rest}".rstrip()


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _produce(row: ProduceRow) -> Parts:
    who = f"pid {row.producer_id}/{row.producer_epoch}" if row.producer_id >= 0 else "no pid"
    what = f"seq {row.first_sequence}–{row.last_sequence}" if row.first_sequence >= 0 else "–"
    note = f"  [{row.note}]" if row.note else ""
    middle = f"{who:<12} {what:<14} {row.records:>5} rec "
    return f"{row.topic}-{row.partition}", middle, row.verdict, f"{row.explain}{note}"


def _fault(row: FaultRow) -> Parts:
    what = f"{row.api} v{row.version}" if row.api else "connection"
    return ", ".join(row.partitions), what, "fault", f"{row.rule}, for the {ordinal(row.number)} time"


def _connection(row: ConnectionRow) -> Parts:
    what = row.software or row.client_host
    return "", what, row.change, row.reason or f"by {row.client_host} at {row.listener} of node {row.node}"


def _request(row: RequestRow) -> Parts:
    return _about(row), _spread(f"{row.api} v{row.version}", f"{row.bytes:,} B"), "asked", _more(row)


def _reply(row: ReplyRow) -> Parts:
    middle = _spread(f"{row.api} v{row.version}", f"{row.latency} ms {row.bytes:,} B")
    rest = "  ".join(text for text in (", ".join(row.errors), _more(row)) if text)
    return _about(row), middle, "error" if row.errors else "answered", rest


def _about(row: RequestRow | ReplyRow) -> str:
    return row.about[0] if row.about else ""


def _more(row: RequestRow | ReplyRow) -> str:
    return f"and {', '.join(row.about[1:])}" if row.about[1:] else ""


def _spread(left: str, right: str) -> str:
    return f"{left}{right:>{max(MIDDLE - len(left), len(right) + 1)}}"


def _fetch(row: FetchRow) -> Parts:
    outcome = "error" if row.code else "fetched"
    stable = f", stable {row.last_stable_offset}" if row.committed else ""
    rest = row.error if row.code else f"high watermark {row.high_watermark}{stable}"
    return f"{row.topic}-{row.partition}", _spread(f"from {row.offset}", f"{row.bytes:,} B"), outcome, rest


def _topic(row: TopicRow) -> Parts:
    return row.topic, "topic", "changed", f"{row.change}, with {row.partitions} partition{'s' * (row.partitions != 1)}"


def _leader(row: LeaderRow) -> Parts:
    leader = f"led by node {row.leader}" if row.leader >= 0 else "without a leader"
    return f"{row.topic}-{row.partition}", "leader", "changed", f"{leader} in epoch {row.leader_epoch}"


def _in_sync(row: InSyncRow) -> Parts:
    nodes = ", ".join(map(str, row.in_sync)) or "nobody"
    return f"{row.topic}-{row.partition}", "replicas", "changed", f"in sync: {nodes}; high watermark {row.high_watermark}"


def _broker(row: BrokerRow) -> Parts:
    return "", f"broker {row.node}", "changed", row.change


_PRODUCER = {"created": "known from now on", "epoch": "a new epoch", "expired": "forgotten"}


def _producer(row: ProducerRow) -> Parts:
    return f"{row.topic}-{row.partition}", f"pid {row.producer_id}/{row.producer_epoch}", "changed", _PRODUCER[row.change]


def _transaction(row: TransactionRow) -> Parts:
    within = f" with {', '.join(row.partitions)}" if row.partitions else ""
    return row.transactional_id, f"pid {row.producer_id}/{row.producer_epoch}", "changed", f"{row.state}{within}"


def _group(row: GroupRow) -> Parts:
    members = f"{row.members} member{'s' * (row.members != 1)}"
    return row.group, "group", "changed", f"{row.state}, generation {row.generation}, {members}"


def _retention(row: RetentionRow) -> Parts:
    rest = f"begins at {row.log_start_offset}, before at {row.before}"
    return f"{row.topic}-{row.partition}", "retention", "changed", rest


def _restart(row: RestartRow) -> Parts:
    return "", "brokers", "changed", f"restarted ({row.mode})"


_PARTS: dict[type[Row], Callable[[Any], Parts]] = {
    ProduceRow: _produce, FaultRow: _fault, ConnectionRow: _connection, RequestRow: _request, ReplyRow: _reply,
    FetchRow: _fetch, TopicRow: _topic, LeaderRow: _leader, InSyncRow: _in_sync, BrokerRow: _broker,
    ProducerRow: _producer, TransactionRow: _transaction, GroupRow: _group, RetentionRow: _retention, RestartRow: _restart,
}  # fmt: skip
