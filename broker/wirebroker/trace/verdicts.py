"""The row of a verdict: read from the same `Appended` that the answer is made of, so that they cannot disagree."""

from __future__ import annotations

from kafkawire.batches import BatchHeader
from kafkawire.errors import error_name
from wirebroker.core.partition import Appended
from wirebroker.core.producers import Accept, Duplicate, Reject, explain
from wirebroker.trace.rows import ProduceRow, VerdictName

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
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
