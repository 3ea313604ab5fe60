"""The rows of the trace. The schema of the JSON lines is `ProduceRow.as_json`, field by field."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Literal

from kafkawire.batches import BatchHeader
from kafkawire.errors import error_name
from wirebroker.core.partition import Appended
from wirebroker.core.producers import Accept, Duplicate, Reject, explain

VerdictName = Literal["accepted", "duplicate", "rejected"]
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ProduceRow:
    """One partition of one Produce request and what was decided of it. −1 stands for "none"."""

    time: int
    """ms since the epoch, by the broker's clock"""
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

    def as_json(self) -> str:
        """One JSON object on one line."""
        return json.dumps({"event": "produce"} | {f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> ProduceRow:
        """The row that `as_json` wrote; KeyError names a field that is missing."""
        return cls(**{f.name: row[f.name] for f in fields(cls)})


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A rule that struck a request."""

    time: int
    """ms since the epoch, by the broker's clock"""
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

    def as_json(self) -> str:
        """One JSON object on one line."""
        return json.dumps({"event": "fault"} | {f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> FaultRow:
        """The row that `as_json` wrote; KeyError names a field that is missing."""
        values = {f.name: row[f.name] for f in fields(cls)}
        return cls(**values | {"partitions": tuple(values["partitions"])})


Row = ProduceRow | FaultRow
EVENTS: dict[str, type[ProduceRow] | type[FaultRow]] = {"produce": ProduceRow, "fault": FaultRow}


def row_from_json(row: dict[str, Any]) -> Row:
    """A row of any event; KeyError names a field that is missing, or an event that does not exist."""
    return EVENTS[row.get("event", "produce")].from_json(row)


_NO_HEADER = BatchHeader(-1, -1, -1, -1, 0, 0, -1, -1, -1, -1, -1, -1, 0)


def produce_row(
    time: int, node: int, connection: int, software: str, client_id: str | None, version: int, correlation_id: int,
    acks: int, topic: str, partition: int, appended: Appended,
) -> ProduceRow:  # fmt: skip
    """The row for one batch."""
    header = appended.header or _NO_HEADER
    verdict = appended.verdict
    idempotent = header.producer_id >= 0
    return ProduceRow(
        time=time,
        node=node,
        connection=connection,
        client_id=client_id,
        software=software,
        version=version,
        correlation_id=correlation_id,
        acks=acks,
        topic=topic,
        partition=partition,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        first_sequence=header.base_sequence,
        last_sequence=header.last_sequence if idempotent else -1,
        records=max(header.records_count, 0),
        bytes=header.size if appended.header else 0,
        compression=COMPRESSIONS[header.compression] if header.compression < len(COMPRESSIONS) else "?",
        transactional=header.is_transactional if appended.header else False,
        verdict=_name(appended),
        rule=verdict.rule,
        code=appended.error_code,
        error=error_name(appended.error_code),
        base_offset=appended.base_offset,
        note=f"idempotent with acks={acks}" if idempotent and acks != -1 else "",
        explain=_sentence(appended, header, topic, partition),
    )


def _name(appended: Appended) -> VerdictName:
    if isinstance(appended.verdict, Accept):
        return "accepted"
    return "duplicate" if isinstance(appended.verdict, Duplicate) else "rejected"


def _sentence(appended: Appended, header: BatchHeader, topic: str, partition: int) -> str:
    verdict = appended.verdict
    if isinstance(verdict, Accept | Duplicate | Reject):
        return explain(verdict, header, appended.state_before, topic, partition)
    return f"rejected {verdict.code}: {verdict.message or verdict.rule}"
