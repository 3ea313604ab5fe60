"""The trace recorder of a proxy. It records requests and faults, as a broker's recorder does, and also shadow verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from kafkawire.batches import BatchHeader, first_header
from kafkawire.declare import Message
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkawire.primitives import Buffer
from kafkawire.registry import api_name
from wirebroker.proxy.denials import denials
from wirebroker.proxy.exchange import ForwardedExchange
from wirebroker.proxy.groups import PassingGroup
from wirebroker.proxy.shadow import KAFKA, Judged
from wirebroker.proxy.transactions import PassingTransaction, names
from wirebroker.requests.connection import Connection
from wirebroker.requests.parts import topic_label
from wirebroker.trace.recorder import UNMEASURED, Recorder, Stages, TracedExchange, batch_row, cut
from wirebroker.trace.rows import GroupRow, LeaderRow, Row, ShadowRow, TransactionRow

UNKNOWN_LIMIT = -1.0


class ProxyRecorder(Recorder):
    """The trace recorder of a proxy. The recorder learns throttling and denied operations from the brokers' responses."""

    def closed(self, connection: Connection, reason: str, unanswered: tuple[str, ...] = ()) -> None:
        """Remember that a connection is closed, and which of its requests are unanswered."""
        self._connection(connection, "closed", reason, unanswered)

    def replied(self, exchange: TracedExchange, response: Message, parts: Sequence[Buffer]) -> None:
        super().replied(exchange, response, parts)
        if isinstance(exchange, ForwardedExchange):
            for operation, kind, name, reason in denials(exchange.request, response, exchange):
                self.refused(exchange.connection, operation, kind, name, reason)

    def held(self, exchange: ForwardedExchange, ms: int) -> None:
        """Remember that the broker throttles the client because of a quota, and does not read from the connection for `ms`
        milliseconds."""
        exchange.relay.mutes.add(self._now(), ms)
        self.throttled(exchange.connection, exchange.client_id, api_name(exchange.api_key), ms, "", "", UNKNOWN_LIMIT)

    def _muted(self, exchange: TracedExchange) -> int:
        return exchange.relay.mutes.until(self._now()) if isinstance(exchange, ForwardedExchange) else 0

    def led(self, topic: str, partition: int, leader: int, leader_epoch: int) -> None:
        """Remember that a response has named a new leader of a partition."""
        self._add(LeaderRow(cut(topic), partition, leader, leader_epoch, time=self._now()))

    def compared(
        self, exchange: ForwardedExchange, acks: int, topic: str, batch: BatchHeader, response: PartitionProduceResponse,
        judged: Judged,
    ) -> None:  # fmt: skip
        """Note a batch with the predicted verdict and the broker's response. The row is made only when the trace is read."""
        raw = (
            self._now(), exchange.connection, exchange.client_id, exchange.version, exchange.correlation_id, acks, topic,
            response.index, batch, response.error_code, response.base_offset, judged,
        )  # fmt: skip
        self._ring.append(raw)
        self.added += 1
        if self.sinks:
            self._hand_out(_row(*raw))

    def passed(self, changed: PassingTransaction | PassingGroup) -> None:
        """Note a change of a transaction or a group, as learned from requests."""
        if not self.changes:
            return
        row: TransactionRow | GroupRow
        if isinstance(changed, PassingTransaction):
            row = TransactionRow(
                changed.transactional_id, changed.producer_id, changed.producer_epoch, changed.state, tuple(names(changed)),
                time=self._now(),
            )  # fmt: skip
        else:
            row = GroupRow(changed.group_id, changed.state, changed.generation, len(changed.members), time=self._now())
            if changed.traced == (row.state, row.generation, row.members):
                return
            changed.traced = row.state, row.generation, row.members
        self._add(row)

    def _stages(self, exchange: TracedExchange) -> Stages:
        return exchange.stages if isinstance(exchange, ForwardedExchange) else UNMEASURED

    def _made(self, entry: Any) -> Row:
        return _row(*entry) if isinstance(entry, tuple) else super()._made(entry)

    def fetched_all(self, exchange: ForwardedExchange, response: FetchResponse) -> None:
        """Note each partition in a response to Fetch."""
        request = exchange.request
        assert isinstance(request, FetchRequest)
        directory = exchange.directory
        wanted = {
            (topic_label(topic, exchange.directory), each.partition): each.fetch_offset
            for topic in request.topics for each in topic.partitions
        }  # fmt: skip
        for topic in response.responses:
            name = topic_label(topic, exchange.directory)
            for data in topic.partitions:
                place = name, data.partition_index
                offset = wanted[place] if place in wanted else directory.session_offset(request, exchange.node_id, *place)
                self.fetched(exchange, name, offset, bool(request.isolation_level), data)


def _row(
    now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int, topic: str,
    partition: int, batch: BatchHeader, code: int, base_offset: int, judged: Judged,
) -> ShadowRow:  # fmt: skip
    plain = batch_row(
        now, connection, cut(client_id), version, correlation_id, acks, topic, partition, batch,
        verdict=judged.outcome, rule=judged.rule, code=code, base_offset=base_offset,
        explain=judged.explain(topic, partition, batch, code, base_offset), sequenced=batch.producer_id >= 0,
        window=KAFKA.window,
    )  # fmt: skip
    return ShadowRow(**asdict(plain), predicted=judged.predicted, agrees=judged.agrees)


def batches_of(exchange: ForwardedExchange) -> dict[tuple[str, int], BatchHeader]:
    """Returns the header of each batch in a Produce request, by topic and partition. A batch without a complete header is left
    out."""
    request = exchange.request
    assert isinstance(request, ProduceRequest)
    return {
        (_name(topic, exchange), part.index): header
        for topic in request.topic_data for part in topic.partition_data
        if (header := first_header(part.records)) is not None
    }  # fmt: skip


def batches_with_responses(
    exchange: ForwardedExchange, response: ProduceResponse
) -> Iterator[tuple[str, BatchHeader, PartitionProduceResponse]]:
    """For each batch in a Produce request, yields the topic, the batch's header, and the partition's part of the response. A
    batch without a complete header is left out.
    """
    headers = batches_of(exchange)
    for topic in response.responses:
        name = _name(topic, exchange)
        for part in topic.partition_responses:
            if (header := headers.get((name, part.index))) is not None:
                yield name, header, part


def _name(topic: TopicProduceData | TopicProduceResponse, exchange: ForwardedExchange) -> str:
    """Returns the topic's name. If the message has only a topic id, and the id is unknown, returns a label with the id."""
    return topic.name or topic_label(topic, exchange.directory)
