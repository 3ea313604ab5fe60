"""DeleteRecords, versions 0–2.

Everything before an offset is gone; −1 stands for the high watermark. The answer holds the offset at which the
partition now begins, which is not moved back by an earlier one. A partition that is only compacted keeps its records
(POLICY_VIOLATION), and so do the coordinators' topics (INVALID_TOPIC_EXCEPTION).
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.leadership import leader_fault
from wirebroker.core.partition import Partition
from wirebroker.exchange import Exchange

HIGH_WATERMARK = -1
UNKNOWN_LOW_WATERMARK = -1


def handle(request: DeleteRecordsRequest, exchange: Exchange) -> DeleteRecordsResponse:
    """Delete the records, and say where each partition begins."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            # Kafka keeps these in a map: of a partition that is named twice the last offset counts.
            offsets.setdefault(topic.name, {})[asked.partition_index] = asked.offset
    topics = []
    for name, wanted in offsets.items():
        results = [_one(name, index, offset, exchange) for index, offset in wanted.items()]
        topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


def _one(topic: str, index: int, offset: int, exchange: Exchange) -> DeleteRecordsPartitionResult:
    code, low_watermark = _delete(exchange.cluster.partition(topic, index), offset, exchange)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)


def _delete(partition: Partition | None, offset: int, exchange: Exchange) -> tuple[ErrorCode, int]:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_LOW_WATERMARK
    if partition.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, UNKNOWN_LOW_WATERMARK
    fault = leader_fault(partition, exchange.node_id)
    if fault:
        return fault, UNKNOWN_LOW_WATERMARK
    policy = partition.configs.value("cleanup.policy")
    if policy == ["compact"]:
        return ErrorCode.POLICY_VIOLATION, UNKNOWN_LOW_WATERMARK
    wanted = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE, UNKNOWN_LOW_WATERMARK
    return ErrorCode.NONE, partition.delete_records(wanted, exchange.now)
