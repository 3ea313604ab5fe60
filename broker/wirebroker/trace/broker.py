"""The recorder of a broker: the wire and the faults as in a proxy, and the verdicts and changes that only a broker knows.

On the Produce path a row is no more than a tuple of references; it becomes a `ProduceRow`, with its sentence, when somebody
reads it, or at once if there is a sink. Everything else is a row at once, and only made at a level that has it.
"""

from __future__ import annotations

from typing import Any

from kafkawire.batches import read_header
from wirebroker.core.changes import (
    BrokerChange,
    Change,
    GroupChange,
    InSyncChange,
    LeaderChange,
    LogStartChange,
    ProducerChange,
    RestartChange,
    TopicChange,
    TransactionChange,
)
from wirebroker.core.partition import Appended, Partition, appended_next
from wirebroker.core.producers import Accept, epoch_of
from wirebroker.exchange import Connection
from wirebroker.trace.recorder import Recorder, cut, software_of
from wirebroker.trace.rows import (
    BrokerRow,
    GroupRow,
    InSyncRow,
    LeaderRow,
    ProduceRow,
    ProducerRow,
    RestartRow,
    RetentionRow,
    Row,
    TopicRow,
    TransactionRow,
)
from wirebroker.trace.verdicts import produce_row

CHANGED: dict[type[Change], type[Row]] = {
    TopicChange: TopicRow, LeaderChange: LeaderRow, InSyncChange: InSyncRow, BrokerChange: BrokerRow,
    ProducerChange: ProducerRow, TransactionChange: TransactionRow, GroupChange: GroupRow,
    LogStartChange: RetentionRow, RestartChange: RestartRow,
}  # fmt: skip
"""A change, and the row that has its fields after the time."""


class BrokerRecorder(Recorder):
    """The recorder of a broker's verdicts and changes, beside the wire and the faults."""

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
        """Note a batch that `append_next` stored, by its base offset and its 61 header bytes as they came."""
        raw = (now, connection, client_id, version, correlation_id, acks, partition, base_offset, header)
        if self.sinks:
            self._note(raw)
        else:
            self._ring.append(raw)

    def _note(self, raw: tuple[Any, ...]) -> None:
        self._ring.append(raw)
        if self.sinks:
            self._hand_out(_row(raw))

    def _note_producer(self, partition: Partition, appended: Appended) -> None:
        header, before = appended.header, appended.state_before
        if header is None or header.producer_id < 0:
            return
        if before is None or epoch_of(before) != header.producer_epoch:
            change = ProducerRow(
                self._now(), "created" if before is None else "epoch", partition.topic, partition.index,
                header.producer_id, header.producer_epoch,
            )  # fmt: skip
            self._add(change)

    def changed(self, change: Change) -> None:
        """Note a change of the cluster."""
        fields = [cut(each) if isinstance(each, str) else each for each in change]
        self._add(CHANGED[type(change)](self._now(), *fields))

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """The verdicts in the ring, oldest first, of one topic or partition if named."""
        return [
            _row(raw)
            for raw in list(self._ring)
            if isinstance(raw, tuple) and topic in (None, raw[6].topic) and partition in (None, raw[6].index)
        ]

    def _made(self, entry: Any) -> Row:
        return _row(entry) if isinstance(entry, tuple) else super()._made(entry)


def _row(raw: tuple[Any, ...]) -> ProduceRow:
    now, connection, client_id, version, correlation_id, acks, partition, *rest = raw
    appended = appended_next(rest[0], read_header(rest[1])) if len(rest) > 1 else rest[0]
    return produce_row(
        now, connection.node_id, connection.number, software_of(connection), client_id, version, correlation_id, acks,
        partition.topic, partition.index, appended,
    )  # fmt: skip
