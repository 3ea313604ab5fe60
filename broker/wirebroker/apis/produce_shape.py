"""The short way of a Produce request that looks like the last one.

A producer sends the same request over and over: the same header, topic and partition, and only the correlation id and
the records differ. So a connection remembers the bytes of its last good Produce up to the records, and what they were
decoded to. While the next one begins with the same bytes, there is nothing to decode, and its answer is the last answer
with other numbers in it. The batch itself goes the same way as ever: `Partition.append` checks, judges and stores it.
Anything that is not alike, or has an error, takes the ordinary way.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkawire.frames import encode_response
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkawire.primitives import Buffer
from wirebroker.core.partition import Partition
from wirebroker.exchange import Connection, Exchange, Reply

if TYPE_CHECKING:
    from wirebroker.engine import Engine

FLEXIBLE_FROM = 9
HEAD_START = 8
"""Where the part of the header begins that stays the same: after key, version and correlation id."""
_SENTINEL = 0x7A5A_3C3C_5A7A_1EAF
_CORRELATION = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
_RESULT = struct.Struct(">qqq")
_RESULT_BEFORE_5 = struct.Struct(">qq")


class ProduceShape:
    """The last good Produce of a connection: one topic, one partition, and what the answer looks like."""

    __slots__ = (
        "acks", "at", "client_id", "cluster_version", "head", "partition", "result_at", "tail", "template", "topic_name",
        "version",
    )  # fmt: skip

    def __init__(self, head: bytes, tail: bytes, partition: Partition, acks: int, exchange: Exchange) -> None:
        self.head = head
        self.at = HEAD_START + len(head)
        self.tail = tail
        self.partition = partition
        self.acks = acks
        self.version = exchange.version
        self.client_id = exchange.client_id
        self.cluster_version = exchange.cluster.version
        self.template = b""
        self.result_at = 0


def remember_shape(request: ProduceRequest, exchange: Exchange) -> None:
    """Keep what this request looked like, if it is one that may come again."""
    connection = exchange.connection
    connection.produce_shape = None
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1 or exchange.frame is None:
        return
    data = request.topic_data[0]
    asked = data.partition_data[0]
    topic = (
        exchange.cluster.topics_by_id.get(data.topic_id)
        if exchange.version >= 13
        else exchange.cluster.topics.get(data.name)
    )
    partition = topic.partition(asked.index) if topic is not None else None
    if partition is None or partition.rules.asks_whether_issued or asked.records is None:
        return
    size = len(asked.records)
    tail_size = 3 if exchange.version >= FLEXIBLE_FROM else 0  # empty tags of partition, topic and request
    length_size = max((size + 1).bit_length() + 6, 7) // 7 if tail_size else _LENGTH.size
    frame = exchange.frame
    at = len(frame) - tail_size - size - length_size
    tail = bytes(frame[len(frame) - tail_size :]) if tail_size else b""
    if any(tail):
        return
    shape = ProduceShape(bytes(frame[HEAD_START:at]), tail, partition, request.acks, exchange)
    shape.template, shape.result_at = _template(data, exchange.version)
    connection.produce_shape = shape


def _template(data: TopicProduceData, version: int) -> tuple[bytes, int]:
    """The answer to a batch that was taken, and where in it the offsets are."""
    answer = PartitionProduceResponse(index=data.partition_data[0].index, error_code=0, base_offset=_SENTINEL)
    topic = TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=[answer])
    encoded = b"".join(encode_response(0, ProduceResponse(responses=[topic]), version))
    return encoded, encoded.index(struct.pack(">q", _SENTINEL))


def produce_alike(
    engine: Engine, connection: Connection, frame: Buffer, correlation_id: int, now: int, owned: bool
) -> bool:
    """Handle a Produce that looks like the last one; False if it does not, and nothing was done."""
    shape: ProduceShape = connection.produce_shape
    at = shape.at
    if frame[HEAD_START:at] != shape.head or shape.cluster_version != engine.cluster.version:
        return False
    end = len(frame) - len(shape.tail)
    if shape.tail:
        size, shift = -1, 0
        while True:
            byte = frame[at]
            at += 1
            size += (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    else:
        (size,) = _LENGTH.unpack_from(frame, at)
        at += _LENGTH.size
    if at + size != end or size < 0 or frame[end:] != shape.tail:
        return False
    partition = shape.partition
    appended = partition.append(frame[at:end], now, shape.version, client_id=shape.client_id, owned=owned)  # type: ignore[arg-type]
    engine.trace.produced(
        now, connection, shape.client_id, shape.version, correlation_id, shape.acks, partition, appended
    )
    if appended.error_code:
        from wirebroker.apis.produce import answer_of

        return _refuse(engine, connection, correlation_id, shape, answer_of(partition.index, appended))
    answer = bytearray(shape.template)
    _CORRELATION.pack_into(answer, 4, correlation_id)
    if shape.version >= 5:
        _RESULT.pack_into(
            answer, shape.result_at, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )
    else:
        _RESULT_BEFORE_5.pack_into(answer, shape.result_at, appended.base_offset, appended.log_append_time)
    engine.effects.append(Reply(connection, [answer]))
    return True


def _refuse(
    engine: Engine, connection: Connection, correlation_id: int, shape: ProduceShape, answer: PartitionProduceResponse
) -> bool:
    topic = engine.cluster.topics[shape.partition.topic]
    response = ProduceResponse(
        responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])]
    )
    engine.effects.append(Reply(connection, encode_response(correlation_id, response, shape.version)))
    return True
