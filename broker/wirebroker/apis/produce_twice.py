"""A Produce request that names a partition more than once. Kafka keeps record data in a map by partition.

If a partition has several record sets, Kafka appends the last record set that is a single readable batch, and the partition's
response is about this batch. If another record set of the partition cannot be read, its error replaces this response, and the
appended batch stays (KafkaApis.handleProduceRequest).
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import ErrorCode
from kafkawire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResponse,
)
from wirebroker.core.record_checks import RecordReject, size_error

Named = tuple[str | bytes, int]
NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def names_twice(request: ProduceRequest) -> bool:
    """Tells whether the request names a partition, or a topic, more than once."""
    topics = request.topic_data
    if len(topics) > 1 and len({_key(data) for data in topics}) < len(topics):
        return True
    return any(
        len(data.partition_data) > 1 and len({each.index for each in data.partition_data}) < len(data.partition_data)
        for data in topics
    )


def _key(data: TopicProduceData) -> str | bytes:
    return data.name or data.topic_id


def named_once(request: ProduceRequest, version: int) -> dict[Named, RecordReject]:
    """Reduce the request to the record data that Kafka appends. Returns the errors of unreadable record data."""
    topics: dict[str | bytes, TopicProduceData] = {}
    kept: dict[Named, PartitionProduceData] = {}
    unread: dict[Named, RecordReject] = {}
    for data in request.topic_data:
        key = _key(data)
        topics.setdefault(key, TopicProduceData(name=data.name, topic_id=data.topic_id, partition_data=[]))
        for requested in data.partition_data:
            records = memoryview(requested.records) if requested.records is not None else None
            error = size_error(records, version)
            if error is not None:
                unread[key, requested.index] = error
                kept.setdefault((key, requested.index), requested)
            else:
                kept[key, requested.index] = requested
    for (key, _), requested in kept.items():
        topics[key].partition_data.append(requested)
    request.topic_data = list(topics.values())
    return unread


def respond_unread(topics: Iterable[TopicProduceResponse], unread: dict[Named, RecordReject]) -> None:
    """Replace the responses of partitions with unreadable data by the errors, except for unknown partitions."""
    for topic in topics:
        for number, response in enumerate(topic.partition_responses):
            error = unread.get((topic.name or topic.topic_id, response.index))
            if error is not None and response.error_code not in NOT_THERE:
                topic.partition_responses[number] = PartitionProduceResponse(
                    index=response.index, error_code=error.code, base_offset=-1, error_message=error.message
                )
