"""The audit: whether delivery was exactly once, by what is stored and by what the application meant to send."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import msgspec

from wirebroker import operations
from wirebroker.audit.journal import intended_rows
from wirebroker.audit.report import AuditReport
from wirebroker.control.controlled import Controlled
from wirebroker.control.forms import Form, Natural, about


class Intended(Form):
    """A record that the application meant to send; the fields are those of a journal."""

    topic: Annotated[str, about("where to", examples=["orders"])]
    partition: Annotated[Natural | None, about("null: any")] = None
    key: Annotated[str | None, about("text; null: a record without a key")] = None
    key_base64: Annotated[str | None, about("other bytes")] = None
    value: Annotated[str | None, about("text", examples=["a pound of tea"])] = None
    value_base64: Annotated[str | None, about("other bytes")] = None
    value_sha256: Annotated[str | None, about("the hash alone; without any of the three the value is null")] = None
    acknowledged: Annotated[bool | None, about("false: sending was reported as failed; null: nobody knows")] = None
    producer: Annotated[str | None, about("whatever the application calls the sender")] = None
    id: Annotated[str | None, about("rows with the same id are one record")] = None


class Question(Form):
    """What is to be audited, and against what."""

    topics: Annotated[list[str] | None, about("these alone; null: all")] = None
    intended: Annotated[list[Intended] | None, about("all that was meant to be sent to them; null: nobody says")] = None


class Found(Form):
    """A finding; −1 stands for "none", and what it is about is from first to last, both included."""

    kind: Annotated[str, about("as docs/audit.md lists them")]
    severity: Literal["certain", "likely", "info"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    evidence: Annotated[Any, about("what was seen")]
    explanation: Annotated[str, about("the finding as a sentence")]


class Counts(Form):
    """What there is of a topic."""

    partitions: int
    batches: int
    records: Annotated[int, about("that a read_committed consumer is given")]
    producers: int
    committed: Annotated[int, about("transactions, on each partition")]
    aborted: Annotated[int, about("transactions, on each partition")]
    open: Annotated[int, about("transactions, on each partition")]
    recognised: Annotated[int, about("retries that were not stored again, as far as the trace goes back")]
    rejected: Annotated[int, about("batches, as far as the trace goes back")]


class Audit(Form):
    """What the audit found."""

    exactly_once: Annotated[bool, about("whether there is no finding but for information")]
    findings: list[Found]
    intended: Annotated[int | None, about("how many records were meant to be sent")]
    lost: Annotated[int, about("how many of them are not stored")]
    doubled: Annotated[int, about("records that are stored once more than they should be")]
    topics: Annotated[dict[str, Counts], about("by name")]
    notices: Annotated[list[str], about("what could not be told apart by its content")]


async def audit(controlled: Controlled, body: Question) -> Audit:
    """Ask whether delivery was exactly once.

    Without `intended`, records that are stored again are told by their content, and nothing can be lost.
    """
    partitions, arrivals = operations.evidence(controlled.engine, body.topics, controlled.now)
    rows = None if body.intended is None else intended_rows([msgspec.structs.asdict(each) for each in body.intended])
    report = await asyncio.to_thread(
        AuditReport, partitions, arrivals=arrivals, intended=rows, topics=body.topics
    )  # the broker goes on meanwhile
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
