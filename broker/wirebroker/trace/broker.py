"""The trace recorder of a broker. Like a proxy's recorder, it records requests, responses and faults. In addition it records
verdicts and changes, which happen only in a broker.

On the Produce path the recorder keeps only a tuple of references. When the trace is read, or immediately if there is a sink,
the tuple becomes a `ProduceRow` with an explanation in words. Other events become rows immediately, if the trace's level
includes them.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import asdict, replace

from kafkawire.batches import HEADER, LOG_OVERHEAD, BatchHeader, read_header
from wirebroker.common.changes import Change, ProducerRow
from wirebroker.core.partition import Appended, Partition, appended_next
from wirebroker.core.producers import Accept, Duplicate, Reject, epoch_of, explain
from wirebroker.requests.connection import Connection
from wirebroker.trace.brief import Brief
from wirebroker.trace.recorder import Recorder, batch_row, cut, principal_of, software_of
from wirebroker.trace.rows import ProduceRow, Row, VerdictName

_NO_HEADER = BatchHeader(-1, -LOG_OVERHEAD, -1, -1, 0, 0, -1, -1, -1, -1, -1, -1, 0)
STORED = (
    "time", "node", "connection", "client_id", "software", "version", "correlation_id", "acks", "topic", "partition",
    "base_offset", "rule", "header", "window", "principal", "client_host",
)  # fmt: skip
"""The names of the columns that describe a batch that was stored in order. Its `produce` row can be made from these columns."""


class BrokerRecorder(Recorder):
    def produced(
        self, now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int,
        partition: Partition, appended: Appended,
    ) -> None:  # fmt: skip
        """Note the verdict on one batch."""
        self._note((now, connection, cut(client_id), version, correlation_id, acks, partition, appended))
        if self.changes and isinstance(appended.verdict, Accept):
            self._note_producer(partition, appended)

    def stored_next(
        self, now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int,
        partition: Partition, base_offset: int, header: bytes,
    ) -> None:  # fmt: skip
        """Note a batch that `append_next` has stored, with the base offset and the 61 bytes of the received header."""
        raw = (now, connection, client_id, version, correlation_id, acks, partition, base_offset, header)
        if self.sinks:
            self._note(raw)
        else:
            self._ring.append(raw)
            self.added += 1

    def _note(self, raw: tuple[Any, ...]) -> None:
        self._ring.append(raw)
        self.added += 1
        if self.sinks:
            self._hand_out(_row(raw))

    def _note_producer(self, partition: Partition, appended: Appended) -> None:
        header, before = appended.header, appended.state_before
        if header is None or header.producer_id < 0:
            return
        if before is None or epoch_of(before) != header.producer_epoch:
            change: Literal["created", "epoch"] = "created" if before is None else "epoch"
            self.changed(ProducerRow(change, partition.topic, partition.index, header.producer_id, header.producer_epoch))

    def changed(self, change: Change) -> None:
        """Note a change of the cluster."""
        texts = {name: cut(fact) for name, fact in asdict(change).items() if isinstance(fact, str)}
        self._add(replace(change, time=self._now(), **texts))

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        return [
            _row(raw)
            for raw in list(self._ring)
            if isinstance(raw, tuple) and topic in (None, raw[6].topic) and partition in (None, raw[6].index)
        ]

    def _made(self, entry: Any) -> Row:
        return _row(entry) if isinstance(entry, tuple) else super()._made(entry)

    def _brief(self, entry: Any) -> Brief:
        return (_stored(entry) if isinstance(entry, tuple) else None) or super()._brief(entry)


def _stored(raw: tuple[Any, ...]) -> Brief | None:
    """Returns the values of the columns in `STORED` if the batch was stored in order. For any other verdict, returns None."""
    now, connection, client_id, version, correlation_id, acks, partition = raw[:7]
    if len(raw) > 8:
        base_offset, rule, header = raw[7], "next", HEADER.unpack(raw[8])
    else:
        verdict, header = raw[7].verdict, raw[7].header
        if not isinstance(verdict, Accept) or header is None:
            return None
        base_offset, rule = verdict
    if partition.rules.key == "client_id":
        return None
    return (
        "stored", now, connection.node_id, connection.number, cut(client_id), software_of(connection), version, correlation_id,
        acks, partition.topic, partition.index, base_offset, rule, header, partition.rules.window,
        principal_of(connection), connection.client_host,
    )  # fmt: skip


def _row(raw: tuple[Any, ...]) -> ProduceRow:
    """Returns the row of a verdict. The row is made from the same `Appended` as the response, so both always agree."""
    now, connection, client_id, version, correlation_id, acks, partition, *rest = raw
    appended: Appended = appended_next(rest[0], read_header(rest[1])) if len(rest) > 1 else rest[0]
    header = appended.header or _NO_HEADER
    verdict = appended.verdict
    return batch_row(
        now, connection, client_id, version, correlation_id, acks, partition.topic, partition.index, header,
        verdict=_name(appended), rule=verdict.rule, code=appended.error_code, base_offset=appended.base_offset,
        explain=_sentence(appended, header, partition), sequenced=header.producer_id >= 0 or partition.rules.key == "client_id",
        window=partition.rules.window,
    )  # fmt: skip


def _name(appended: Appended) -> VerdictName:
    if isinstance(appended.verdict, Accept):
        return "accepted"
    return "duplicate" if isinstance(appended.verdict, Duplicate) else "rejected"


def _sentence(appended: Appended, header: BatchHeader, partition: Partition) -> str:
    verdict = appended.verdict
    if isinstance(verdict, Accept | Duplicate | Reject):
        return explain(verdict, header, appended.state_before, partition.topic, partition.index)
    return f"rejected {verdict.code}: {verdict.message or verdict.rule}"
