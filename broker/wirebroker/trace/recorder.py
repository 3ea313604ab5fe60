"""The recorder: a ring of the latest rows, and sinks that get each row as it is made.

On the produce path a row is no more than a tuple of references; it becomes a `ProduceRow`, with its sentence, when
somebody reads it. With a sink attached it is made at once. All else is a row at once, and only made at a level that has it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from kafkawire.batches import read_header
from kafkawire.declare import Message
from kafkawire.entities import values
from kafkawire.errors import error_name
from kafkawire.registry import api_name
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
from wirebroker.exchange import Connection, Exchange, Traced
from wirebroker.trace.levels import includes
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
from wirebroker.trace.verdicts import produce_row

if TYPE_CHECKING:
    from kafkawire.messages.fetch import PartitionData
    from wirebroker.faults.rules import Rule
    from wirebroker.requests.facts import Facts

logger = logging.getLogger("wirebroker")

RING = 10_000
"""Rows that the ring keeps."""
LONGEST = 1000
"""Characters that a row keeps of a name which a client made up."""
NAMED = 8
"""How many of the things that a request names are traced."""
CHANGED: dict[type[Change], type[Row]] = {
    TopicChange: TopicRow, LeaderChange: LeaderRow, InSyncChange: InSyncRow, BrokerChange: BrokerRow,
    ProducerChange: ProducerRow, TransactionChange: TransactionRow, GroupChange: GroupRow,
    LogStartChange: RetentionRow, RestartChange: RestartRow,
}  # fmt: skip
"""A change, and the row that has its fields behind the time."""

Sink = Callable[[Row], None]
Text = TypeVar("Text", str, str | None)


class Recorder:
    """What the broker decided, said and changed, latest last. `now()` is the time of what is not told when it happened."""

    def __init__(self, now: Callable[[], int], size: int = RING) -> None:
        self._ring: deque[tuple[Any, ...] | Row] = deque(maxlen=size)
        self._now = now
        self.sinks: list[Sink] = []
        self.verdicts = self.changes = self.exchanges = self.requests = False
        """Whether rows of these kinds are made, as the level has it."""
        self.set_level("verdicts")

    def set_level(self, level: str) -> None:
        """Trace this much from now on. ValueError for a level that does not exist; `Engine.trace_at` is how to change it."""
        self.verdicts = includes(level, "verdicts")
        self.changes = includes(level, "changes")
        self.exchanges = includes(level, "exchanges")
        self.requests = includes(level, "all")
        self.level = level

    # Verdicts and faults

    def produced(
        self, now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int,
        partition: Partition, appended: Appended,
    ) -> None:  # fmt: skip
        """Note the verdict on one batch."""
        self._note((now, connection, _cut(client_id), version, correlation_id, acks, partition, appended))
        if self.changes and isinstance(appended.verdict, Accept):
            self._note_producer(partition, appended)

    def stored_next(
        self, now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int,
        partition: Partition, base_offset: int, header: bytes,
    ) -> None:  # fmt: skip
        """Note a batch that the fast path stored, by its base offset and its 61 header bytes as they came."""
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

    def fired(
        self, now: int, connection: Connection, rule: Rule, number: int, facts: Facts | None = None,
        partitions: Iterable[tuple[str, int | None]] | None = None, correlation_id: int = -1,
    ) -> None:  # fmt: skip
        """Note that a rule struck a connection, a request, or some of a request's partitions, for the `number`th time."""
        if not self.verdicts:
            return
        client_id, api, version = (_cut(facts.client_id), facts.api, facts.version) if facts is not None else (None, "", -1)
        row = FaultRow(
            now, connection.node_id, connection.number, client_id, api, version, correlation_id, rule.kind, str(rule),
            tuple(sorted(topic if index is None else f"{topic}-{index}" for topic, index in partitions or ())), number,
        )  # fmt: skip
        self._add(row)

    # The wire

    def opened(self, connection: Connection) -> None:
        """Note a new connection."""
        self._connection(connection, "opened", "")

    def closed(self, connection: Connection, reason: str) -> None:
        """Note that a connection is gone."""
        self._connection(connection, "closed", reason)

    def _connection(self, connection: Connection, change: Any, reason: str) -> None:
        row = ConnectionRow(
            self._now(), connection.node_id, connection.number, change, connection.client_host, connection.listener,
            software_of(connection), reason,
        )  # fmt: skip
        self._add(row)

    def requested(self, request: Message, exchange: Exchange) -> None:
        """Note a request, and keep with its exchange what its answer's row needs."""
        about = tuple(_about(request, exchange))
        exchange.traced = Traced(exchange.now, about)
        if self.requests:
            connection = exchange.connection
            row = RequestRow(
                exchange.now, connection.node_id, connection.number, _cut(exchange.client_id), software_of(connection),
                api_name(exchange.api_key), exchange.version, exchange.correlation_id, len(exchange.frame or b""), about,
            )  # fmt: skip
            self._add(row)

    def replied(self, exchange: Exchange, response: Message, size: int) -> None:
        """Note an answer that is being sent."""
        now, connection = self._now(), exchange.connection
        arrived, about = exchange.traced or (now, ())
        errors = dict.fromkeys(error_name(code) for code in values(response, "errorCode") if code)
        row = ReplyRow(
            now, connection.node_id, connection.number, _cut(exchange.client_id), software_of(connection),
            api_name(exchange.api_key), exchange.version, exchange.correlation_id, size, max(now - arrived, 0),
            tuple(errors), about,
        )  # fmt: skip
        self._add(row)

    def fetched(self, exchange: Exchange, topic: str, offset: int, committed: bool, data: PartitionData) -> None:
        """Note what one partition gave to a Fetch."""
        connection = exchange.connection
        row = FetchRow(
            self._now(), connection.node_id, connection.number, _cut(exchange.client_id), software_of(connection),
            exchange.version, exchange.correlation_id, topic, data.partition_index, offset, len(data.records or b""),
            data.high_watermark, data.last_stable_offset, data.log_start_offset, committed, data.error_code,
            error_name(data.error_code),
        )  # fmt: skip
        self._add(row)

    # Changes

    def changed(self, change: Change) -> None:
        """Note a change of the cluster."""
        fields = [_cut(each) if isinstance(each, str) else each for each in change]
        self._add(CHANGED[type(change)](self._now(), *fields))

    def _add(self, row: Row) -> None:
        self._ring.append(row)
        if self.sinks:
            self._hand_out(row)

    # Sinks

    def _hand_out(self, row: Row) -> None:
        """Give a row to every sink. One that fails is detached, as the batch that it is told of is stored already."""
        for sink in tuple(self.sinks):
            try:
                sink(row)
            except KeyboardInterrupt:
                raise
            except BaseException as failure:
                self.detach(sink)
                reason = getattr(failure, "strerror", None) or repr(failure)
                logger.warning("the trace no longer goes to %s (%s); the broker goes on without it", _named(sink), reason)

    def detach(self, sink: Sink) -> None:
        """Give this sink no more rows; harmless if it gets none."""
        if sink in self.sinks:
            self.sinks.remove(sink)

    # Reading

    def faults(self) -> list[FaultRow]:
        """The faults in the ring, oldest first."""
        return [row for row in self._ring if isinstance(row, FaultRow)]

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """The verdicts in the ring, oldest first, of one topic or partition if named."""
        return [
            _row(raw)
            for raw in list(self._ring)
            if isinstance(raw, tuple)
            and (topic is None or raw[6].topic == topic)
            and (partition is None or raw[6].index == partition)
        ]

    def events(self, *names: str) -> list[Row]:
        """The rows of these events in the ring, or of all, oldest first."""
        return [row for row in self.last(len(self._ring)) if not names or row.event in names]

    def last(self, count: int) -> list[Row]:
        """The latest `count` rows of any kind, oldest first."""
        latest = list(self._ring)[-count:] if count > 0 else []
        return [_row(raw) if isinstance(raw, tuple) else raw for raw in latest]

    def clear(self) -> None:
        """Forget all rows."""
        self._ring.clear()


def software_of(connection: Connection) -> str:
    """What the client calls itself, "" if it does not."""
    return _cut("/".join(part for part in connection.software if part))


def _cut(text: Text) -> Text:
    """The text, without what is beyond `LONGEST`; a client may send 32 KiB of it with each request."""
    return text if text is None or len(text) <= LONGEST else text[:LONGEST] + "…"


def _named(sink: Sink) -> str:
    """What a person calls a sink: its `name` if it has one, or that of its function or class."""
    name = getattr(sink, "name", None) or getattr(sink, "__qualname__", None) or type(sink).__qualname__
    return str(name)


def _row(raw: tuple[Any, ...]) -> ProduceRow:
    now, connection, client_id, version, correlation_id, acks, partition, *rest = raw
    appended = appended_next(rest[0], read_header(rest[1])) if len(rest) > 1 else rest[0]
    return produce_row(
        now, connection.node_id, connection.number, software_of(connection), client_id, version, correlation_id, acks,
        partition.topic, partition.index, appended,
    )  # fmt: skip


def _about(request: Message, exchange: Exchange) -> Iterator[str]:
    from wirebroker.requests.facts import facts_of

    facts = facts_of(request, exchange)
    with_index = {topic for topic, _ in facts.partitions}
    names = [f"{topic}-{index}" for topic, index in sorted(facts.partitions)]
    names += sorted(facts.topics - with_index)
    names += [f"group {group}" for group in sorted(facts.groups)]
    names += [f"transaction {each}" for each in sorted(facts.transactional_ids)]
    yield from map(_cut, names[:NAMED])
    if len(names) > NAMED:
        yield f"{len(names) - NAMED} more"
