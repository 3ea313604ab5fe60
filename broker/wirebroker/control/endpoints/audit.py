"""The audit compares the stored records with the application's intended records, to find out whether delivery was exactly
once."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import msgspec

from wirebroker.audit.journal import intended_rows
from wirebroker.audit.report import AuditReport
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, Natural, about
from wirebroker.testing import operations


class Intended(Form):
    """A record that the application meant to send, with the fields of a journal."""

    topic: Annotated[str, about("the topic to which the record was sent", examples=["orders"])]
    partition: Annotated[Natural | None, about("null: any partition")] = None
    key: Annotated[str | None, about("the key as text; null: a record without a key")] = None
    key_base64: Annotated[str | None, about("the bytes of the key, in base64")] = None
    value: Annotated[str | None, about("the value as text", examples=["a pound of tea"])] = None
    value_base64: Annotated[str | None, about("the bytes of the value, in base64")] = None
    value_sha256: Annotated[str | None, about("the value's SHA-256 instead; for a null value omit all value fields")] = None
    acknowledged: Annotated[bool | None, about("false: the client reported that sending failed; null: unknown")] = None
    producer: Annotated[str | None, about("the application's name for the sender")] = None
    id: Annotated[str | None, about("rows with the same id are the same record")] = None


class Question(Form):
    """The topics to audit, and the intended records."""

    topics: Annotated[list[str] | None, about("only these topics; null: all topics")] = None
    intended: Annotated[list[Intended] | None, about("all records that the application meant to send; null: unknown")] = None


class Found(Form):
    """A finding; −1 stands for "none". The finding concerns the sequences and offsets from first to last, both included."""

    kind: Annotated[str, about("the kind of finding; docs/how-to/audit.md lists all kinds")]
    severity: Literal["certain", "likely", "info"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    evidence: Annotated[Any, about("the observed facts")]
    explanation: Annotated[str, about("the finding as a sentence")]


class Counts(Form):
    """Counts of a topic."""

    partitions: int
    batches: int
    records: Annotated[int, about("the number of records that a read_committed consumer receives")]
    producers: int
    committed: Annotated[int, about("the number of committed transactions, counted once on each partition")]
    aborted: Annotated[int, about("the number of aborted transactions, counted once on each partition")]
    open: Annotated[int, about("the number of open transactions, counted once on each partition")]
    recognised: Annotated[int, about("the number of retries in the trace that were not stored again")]
    rejected: Annotated[int, about("the number of rejected batches in the trace")]


class Audit(Form):
    """The result of the audit."""

    exactly_once: Annotated[bool, about("true if every finding is only information")]
    findings: list[Found]
    intended: Annotated[int | None, about("the number of intended records")]
    lost: Annotated[int, about("the number of intended records that are not stored")]
    doubled: Annotated[int, about("the number of extra copies of records")]
    topics: Annotated[dict[str, Counts], about("by name")]
    notices: Annotated[list[str], about("sentences about records with equal contents, which the audit cannot tell apart")]


async def audit(controlled: ControlledBroker, body: Question) -> Audit:
    """Audit whether delivery was exactly once.

    Without `intended`, the audit recognises duplicates by their content and cannot report lost records.
    """
    partitions, arrivals = operations.evidence(controlled.engine, body.topics, controlled.now)
    rows = None if body.intended is None else intended_rows([msgspec.structs.asdict(each) for each in body.intended])
    report = await asyncio.to_thread(
        AuditReport, partitions, arrivals=arrivals, intended=rows, topics=body.topics
    )  # in a thread, so the broker continues to serve its clients
    summary = report.summary()
    return Audit(
        exactly_once=all(each.severity == "info" for each in report.findings),
        findings=[Found(**each._asdict() | {"evidence": json.loads(each.evidence)}) for each in report.findings],
        intended=summary["intended"],
        lost=summary["lost"],
        doubled=summary["doubled"],
        topics={name: Counts(**counts) for name, counts in summary["topics"].items()},
        notices=summary["notices"],
    )
