"""The demo's second half: what a client does when acknowledgements get lost, sent by hand over the raw wire.

A flow is a table: which batch is sent, what the broker is to answer, and which batches the log is to hold in the end.
`play` sends it and compares three witnesses with the table: the answers, the trace, and the records that are stored.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from kafkawire.batches import Record, build_batch
from kafkawire.errors import ErrorCode, WireError
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wirebroker.conformance.client import ConnectionClosed, NoAnswer, WireClient
from wirebroker.mock import MockKafka
from wirebroker.trace.rows import ProduceRow, VerdictName

BATCHES = {"A": (114, 120), "B": (121, 124), "C": (125, 132), "D": (133, 142), "E": (143, 150), "F": (151, 155)}
"""First and last sequence of each batch."""
PRODUCE, PRODUCE_VERSION = 0, 12
"""12 is the latest version that names topics by name."""
OUT_OF_ORDER, FENCED = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH


class Step(NamedTuple):
    """One batch that is sent. `offset` is the answer's, −1 with an error; `lost` answers are never read."""

    batch: str
    verdict: VerdictName
    offset: int = -1
    code: int = 0
    epoch: int = 0
    first: int | None = None
    """its first sequence, if that is not the batch's usual one"""
    lost: bool = False

    @property
    def sequences(self) -> tuple[int, int]:
        """First and last sequence as they are sent."""
        first, last = BATCHES[self.batch]
        return (first, last) if self.first is None else (self.first, self.first + last - first)


class Flow(NamedTuple):
    """Steps, and the batches that the log is to hold afterwards, in order."""

    id: str
    title: str
    steps: tuple[Step, ...]
    log: str
    moral: str
    idempotent: bool = True


@dataclass(slots=True)
class FlowResult:
    """What came of a flow: the trace's row for each step, and every difference from the table."""

    flow: Flow
    rows: list[ProduceRow] = field(default_factory=list)
    sent: int = 0
    stored: int = 0
    twice: int = 0
    differences: list[str] = field(default_factory=list)


FLOWS = (
    Flow(
        "B1", "success: five batches in order",
        (
            Step("A", "accepted", 0), Step("B", "accepted", 7), Step("C", "accepted", 11), Step("D", "accepted", 19),
            Step("E", "accepted", 29),
        ),
        "ABCDE", "Each is acknowledged with the offset where it begins.",
    ),
    Flow(
        "B2", "the acknowledgements of D and E are lost; the client sends both again",
        (
            Step("A", "accepted", 0), Step("B", "accepted", 7), Step("C", "accepted", 11),
            Step("D", "accepted", 19, lost=True), Step("E", "accepted", 29, lost=True),
            Step("D", "duplicate", 19), Step("E", "duplicate", 29),
        ),
        "ABCDE", "The retries are answered with the original offsets. Nothing is stored twice.",
    ),
    Flow(
        "B3", "C goes missing on the way; D and E, already in flight, leave a gap",
        (
            Step("A", "accepted", 0), Step("B", "accepted", 7),
            Step("D", "rejected", code=OUT_OF_ORDER), Step("E", "rejected", code=OUT_OF_ORDER),
            Step("C", "accepted", 11), Step("D", "accepted", 19), Step("E", "accepted", 29),
        ),
        "ABCDE", "45 is OUT_OF_ORDER_SEQUENCE_NUMBER. C heals the gap: nothing is lost, doubled or reordered.",
    ),
    Flow(
        "B4", "six in flight, their acknowledgements lost: one more than the window",
        (
            Step("A", "accepted", 0, lost=True), Step("B", "accepted", 7, lost=True),
            Step("C", "accepted", 11, lost=True), Step("D", "accepted", 19, lost=True),
            Step("E", "accepted", 29, lost=True), Step("F", "accepted", 37, lost=True),
            Step("A", "rejected", code=OUT_OF_ORDER),
            Step("A", "accepted", 42, epoch=1, first=0),
            Step("B", "rejected", code=FENCED),
        ),
        "ABCDEFA", "A client that then bumps its epoch stores A twice. Its old epoch is 47 INVALID_PRODUCER_EPOCH.",
    ),
    Flow(
        "B7", "the lost acknowledgement once more, without idempotence",
        (Step("A", "accepted", 0, lost=True), Step("A", "accepted", 7)),
        "AA", "Nothing tells the broker that it has seen A before.", idempotent=False,
    ),
)  # fmt: skip


def play(flow: Flow, kafka: MockKafka) -> FlowResult:
    """Send the steps of a flow to a topic of its own, and compare."""
    topic = f"flow-{flow.id}"
    kafka.create_topic(topic)
    host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
    wire = WireClient(host, int(port))
    result = FlowResult(flow)
    try:
        _send(flow, topic, wire, kafka, result)
    except (WireError, ConnectionClosed, NoAnswer, OSError) as failed:  # a TimeoutError is an OSError
        result.differences.append(f"no answer could be read: {type(failed).__name__}: {failed}")
    finally:
        wire.close()
    result.rows = kafka.trace.produce(topic)
    _compare_trace(result)
    _compare_log(result, [record.value or b"" for record in kafka.records(topic)])
    return result


def _send(flow: Flow, topic: str, wire: WireClient, kafka: MockKafka, result: FlowResult) -> None:
    producer_id = -1
    if flow.idempotent:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        producer_id = wire.request(request, 4).producer_id
    for number, step in enumerate(flow.steps):
        if not step.lost and number and flow.steps[number - 1].lost:
            handled = number
            kafka.wait_until(lambda handled=handled: len(kafka.trace.produce(topic)) >= handled)  # type: ignore[misc]
            wire.drop("main")  # with the answers in it
        wire.send(_request(topic, step, producer_id), PRODUCE_VERSION)
        if not step.lost:
            answer = wire.answer(PRODUCE, PRODUCE_VERSION).responses[0].partition_responses[0]
            _compare(result, number, step, "the answer is", answer.error_code, answer.base_offset)


def _request(topic: str, step: Step, producer_id: int) -> ProduceRequest:
    records = [Record(i, 0, None, value) for i, value in enumerate(_values(step.batch))]
    data = build_batch(
        records,
        base_timestamp=time.time_ns() // 1_000_000,
        producer_id=producer_id,
        producer_epoch=step.epoch if producer_id >= 0 else -1,
        base_sequence=step.sequences[0] if producer_id >= 0 else -1,
    )
    partition = PartitionProduceData(index=0, records=data)
    return ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )


def _values(batches: str) -> list[bytes]:
    """The values of the records of these batches, one after another."""
    return [f"{name}{n}".encode() for name in batches for n in range(BATCHES[name][0], BATCHES[name][1] + 1)]


def _compare(result: FlowResult, number: int, step: Step, who: str, code: int, offset: int) -> None:
    if (code, offset) != (step.code, step.offset):
        result.differences.append(
            f"step {number + 1}, batch {step.batch}: {who} code {code}, offset {offset}; "
            f"expected code {step.code:d}, offset {step.offset}"
        )


def _compare_trace(result: FlowResult) -> None:
    steps = result.flow.steps
    if len(result.rows) != len(steps):
        result.differences.append(f"the trace has {len(result.rows)} rows; expected {len(steps)}")
    for number, (step, row) in enumerate(zip(steps, result.rows, strict=False)):
        _compare(result, number, step, "the trace has", row.code, row.base_offset)
        if row.verdict != step.verdict:
            result.differences.append(
                f"step {number + 1}, batch {step.batch}: the verdict is {row.verdict}; expected {step.verdict}"
            )


def _compare_log(result: FlowResult, stored: list[bytes]) -> None:
    result.sent = len(_values("".join(dict.fromkeys(step.batch for step in result.flow.steps))))
    result.stored, result.twice = len(stored), len(stored) - len(set(stored))
    if stored != _values(result.flow.log):
        expected = len(_values(result.flow.log))
        found = "".join(name for name, _ in groupby(value[:1].decode() for value in stored))
        result.differences.append(
            f"the log holds {len(stored)} records of {found}; expected {expected} of {result.flow.log}"
        )
