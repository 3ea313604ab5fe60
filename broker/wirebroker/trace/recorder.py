"""The recorder: a ring of the latest rows, and sinks that get each row as it is made.

On the produce path a row is no more than a tuple of references; it becomes a `ProduceRow`, with its sentence, when
somebody reads it. With a sink attached it is made at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafkawire.batches import read_header
from wirebroker.core.partition import Appended, Partition, appended_next
from wirebroker.exchange import Connection
from wirebroker.trace.rows import FaultRow, ProduceRow, Row, produce_row

if TYPE_CHECKING:
    from wirebroker.faults.facts import Facts
    from wirebroker.faults.rules import Rule

RING = 10_000
"""Rows that the ring keeps."""

Sink = Callable[[Row], None]


class Recorder:
    """What the broker decided, latest last."""

    def __init__(self, size: int = RING) -> None:
        self._ring: deque[tuple[Any, ...] | FaultRow] = deque(maxlen=size)
        self.sinks: list[Sink] = []

    def produced(
        self, now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int,
        partition: Partition, appended: Appended,
    ) -> None:  # fmt: skip
        """Note the verdict on one batch."""
        self._note((now, connection, client_id, version, correlation_id, acks, partition, appended))

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
            row = _row(raw)
            for sink in self.sinks:
                sink(row)

    def fired(
        self, now: int, connection: Connection, rule: Rule, facts: Facts | None = None,
        partitions: Iterable[tuple[str, int | None]] | None = None, correlation_id: int = -1,
    ) -> None:  # fmt: skip
        """Note that a rule struck a connection, a request, or some of a request's partitions."""
        client_id, api, version = (facts.client_id, facts.api, facts.version) if facts is not None else (None, "", -1)
        row = FaultRow(
            now, connection.node_id, connection.number, client_id, api, version, correlation_id, rule.kind, str(rule),
            tuple(sorted(topic if index is None else f"{topic}-{index}" for topic, index in partitions or ())), rule.fired,
        )  # fmt: skip
        self._ring.append(row)
        for sink in self.sinks:
            sink(row)

    def faults(self) -> list[FaultRow]:
        """The faults in the ring, oldest first."""
        return [row for row in self._ring if isinstance(row, FaultRow)]

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """The verdicts in the ring, oldest first, of one topic or partition if named."""
        return [
            _row(raw)
            for raw in list(self._ring)
            if not isinstance(raw, FaultRow)
            and (topic is None or raw[6].topic == topic)
            and (partition is None or raw[6].index == partition)
        ]

    def last(self, count: int) -> list[Row]:
        """The latest `count` rows of any kind, oldest first."""
        return [raw if isinstance(raw, FaultRow) else _row(raw) for raw in list(self._ring)[-count:]]

    def clear(self) -> None:
        """Forget all rows."""
        self._ring.clear()


def _row(raw: tuple[Any, ...]) -> ProduceRow:
    now, connection, client_id, version, correlation_id, acks, partition, *rest = raw
    appended = appended_next(rest[0], read_header(rest[1])) if len(rest) > 1 else rest[0]
    software = "/".join(part for part in connection.software if part)
    return produce_row(
        now, connection.node_id, connection.number, software, client_id, version, correlation_id, acks,
        partition.topic, partition.index, appended,
    )  # fmt: skip
