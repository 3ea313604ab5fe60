"""The fast path for a Produce request with the same shape as the previous request.

A producer repeats the same request: the header, topic and partition are the same, and only the correlation id and the records
differ. After a good Produce, the connection keeps what came before the records, as bytes and decoded. If the next request
begins with the same bytes, the broker decodes nothing, and sends the previous response with new numbers. The batch itself is
checked, judged and stored as usual. Any other request, and any error, takes the ordinary path.
"""

from __future__ import annotations

import struct
from typing import Any

from kafkawire.batches import HEADER_SIZE, TRANSACTIONAL
from kafkawire.frames import encode_response
from kafkawire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkawire.primitives import read_uvarint
from wirebroker.apis.exchange import EngineParts, Exchange
from wirebroker.core.partition import Appended
from wirebroker.core.record_checks import OLDEST_VERSION_OF_BATCHES, RecordReject, TakesLong
from wirebroker.requests.connection import Connection, ProduceShape
from wirebroker.requests.effects import Respond

FLEXIBLE_FROM = 9
ATTRIBUTES_AT = 22
"""The position of the attributes' low byte in a batch."""
HEAD_START = 8
"""The position after the API key, the version and the correlation id. From here on, each request has the same header."""
_NO_TAGS = bytes(3)
"""A flexible request ends with the empty tags of the partition, of the topic and of the request."""
_NO_TAGS_SIZE = len(_NO_TAGS)
_new: Any = tuple.__new__
_SENTINEL = 0x7A5A_3C3C_5A7A_1EAF
_LENGTH = struct.Struct(">i")


def remember_shape(request: ProduceRequest, exchange: Exchange) -> None:
    """Remember the shape of this request if the fast path can handle further requests of this shape."""
    connection = exchange.connection
    connection.produce_shape = None
    if exchange.engine.trace.exchanges or exchange.cluster.quotas.on or exchange.version < OLDEST_VERSION_OF_BATCHES:
        return
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1 or exchange.frame is None:
        return
    data = request.topic_data[0]
    requested = data.partition_data[0]
    topic = exchange.cluster.find_topic(data.name, data.topic_id)
    partition = topic.partition(requested.index) if topic is not None else None
    if partition is None or partition.rules.needs_issued or requested.records is None:
        return
    if partition.held_at is not None:  # the response may have to wait until replicas have the batch
        return
    size = len(requested.records)
    frame = exchange.frame
    end = len(frame)
    if exchange.version >= FLEXIBLE_FROM:
        end -= _NO_TAGS_SIZE
        if frame[end:] != _NO_TAGS:
            return
        at = end - size - max((size + 1).bit_length() + 6, 7) // 7
    else:
        at = end - size - _LENGTH.size
    shape = ProduceShape(
        bytes(frame[HEAD_START:at]), at, partition, request.acks, exchange.version, exchange.client_id, exchange.cluster.version
    )
    _cut_response(shape, data, exchange.version)
    connection.produce_shape = shape


def _cut_response(shape: ProduceShape, data: TopicProduceData, version: int) -> None:
    """Divide the response to a stored batch into the constant parts before and after the numbers that change."""
    response = PartitionProduceResponse(index=data.partition_data[0].index, error_code=0, base_offset=_SENTINEL)
    topic = TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=[response])
    encoded = b"".join(encode_response(0, ProduceResponse(responses=[topic]), version))
    at = encoded.index(struct.pack(">q", _SENTINEL))
    numbers = 3 if version >= 5 else 2  # base offset, log append time, and from version 5 on the log start offset
    shape.between, shape.after = encoded[8:at], encoded[at + 8 * numbers :]
    shape.size = len(encoded) - 4
    shape.response = struct.Struct(f">ii{len(shape.between)}s{numbers}q{len(shape.after)}s").pack


def response_of(index: int, appended: Appended) -> PartitionProduceResponse:
    """Returns the partition's part of the response for the verdict `appended`."""
    response = PartitionProduceResponse(
        index=index,
        error_code=appended.error_code,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start_offset,
    )
    if isinstance(appended.verdict, RecordReject):
        response.error_message = appended.verdict.message
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text)
            for i, text in appended.verdict.record_errors
        ]
    return response


def produce_by_shape(
    engine: EngineParts, connection: Connection, shape: ProduceShape, frame: memoryview, correlation_id: int, now: int,
    owned: bool,
) -> bool:  # fmt: skip
    """Handle a Produce request that has this shape. Returns False, with nothing changed, if the request has another shape."""
    at, end = shape.at, len(frame)
    if frame[HEAD_START:at].tobytes() != shape.head or shape.cluster_version != engine.cluster.version:
        return False
    if shape.version >= FLEXIBLE_FROM:
        end -= _NO_TAGS_SIZE
        size, at = read_uvarint(frame, at)
        size -= 1
        if at + size != end or frame[end] or frame[end + 1] or frame[end + 2]:
            return False
    else:
        (size,) = _LENGTH.unpack_from(frame, at)
        at += 4
        if at + size != end:
            return False
    partition, version, client_id = shape.partition, shape.version, shape.client_id
    records = frame[at:end]
    append_time = -1
    base_offset = partition.fast_path.append(records, now, owned)
    if base_offset >= 0:
        if engine.trace.verdicts:
            header = records[:HEADER_SIZE].tobytes()
            engine.trace.stored_next(
                now, connection, client_id, version, correlation_id, shape.acks, partition, base_offset, header
            )
    elif end - at > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & TRANSACTIONAL:
        return False
    else:
        try:
            appended = partition.append(records, now, version, client_id=client_id, owned=owned, at_once=True)
        except TakesLong:
            return False
        if engine.trace.verdicts:
            engine.trace.produced(now, connection, client_id, version, correlation_id, shape.acks, partition, appended)
        if appended.error_code:
            _refuse(engine, connection, correlation_id, shape, appended)
            return True
        base_offset, append_time = appended.base_offset, appended.log_append_time
    if version >= 5:
        numbers: tuple[int, ...] = (base_offset, append_time, partition.log_start_offset)
    else:
        numbers = (base_offset, append_time)
    response = shape.response(shape.size, correlation_id, shape.between, *numbers, shape.after)
    engine.effects.append(_new(Respond, (connection, [response])))
    return True


def _refuse(engine: EngineParts, connection: Connection, correlation_id: int, shape: ProduceShape, appended: Appended) -> None:
    topic = engine.cluster.topics[shape.partition.topic]
    part = response_of(shape.partition.index, appended)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[part])]
    )
    engine.effects.append(Respond(connection, encode_response(correlation_id, response, shape.version)))
