"""DeleteRecords, versions 0–2.

Deletes all records before an offset; −1 stands for the high watermark. The response has the partition's new log start offset,
which never moves back. Two kinds of partitions keep their records: a partition with the cleanup policy `compact` alone gets
POLICY_VIOLATION, and a partition of a coordinator's topic gets INVALID_TOPIC_EXCEPTION. The response is sent when all live
replicas have deleted the records. If the timeout is over first, the response has REQUEST_TIMED_OUT and the smallest log start
offset of the replicas.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from wirebroker.apis.delayed import Delayed
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.leadership import leader_error
from wirebroker.core.partition import Partition
from wirebroker.core.releases.changes import since
from wirebroker.requests.effects import Outcome

KEEPS_COMPACTED_RECORDS = since("1.1", "DeleteRecords deletes nothing from a compacted topic")

HIGH_WATERMARK = -1
UNKNOWN_LOW_WATERMARK = -1


class Awaited(NamedTuple):
    """The result of a partition. The result is final when all live replicas have reached the requested log start offset."""

    partition: Partition
    required_offset: int
    result: DeleteRecordsPartitionResult


def handle(request: DeleteRecordsRequest, exchange: Exchange) -> Steps:
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for requested in topic.partitions:
            # Kafka keeps the requested offsets in a map: the last offset wins for a partition named twice.
            offsets.setdefault(topic.name, {})[requested.partition_index] = requested.offset
    pause = pauses()
    topics: list[DeleteRecordsTopicResult] = []
    awaited: list[Awaited] = []
    for name, wanted in offsets.items():
        results = []
        for index, offset in wanted.items():
            yield from pause()
            result = DeleteRecordsPartitionResult(
                partition_index=index, low_watermark=UNKNOWN_LOW_WATERMARK, error_code=ErrorCode.NONE
            )
            partition = exchange.cluster.partition(name, index)
            result.error_code = _delete(partition, offset, result, awaited, exchange)
            results.append(result)
        topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
    response = DeleteRecordsResponse(topics=topics)
    return _wait(awaited, request.timeout_ms, response, exchange) if awaited else response


def _delete(
    partition: Partition | None, offset: int, result: DeleteRecordsPartitionResult, awaited: list[Awaited],
    exchange: Exchange,
) -> ErrorCode:  # fmt: skip
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    error = leader_error(partition, exchange.node_id)
    if error:
        return error
    compacts = partition.configs.value("cleanup.policy") == ["compact"]
    if compacts and KEEPS_COMPACTED_RECORDS.of(exchange.cluster.configs.release):
        return ErrorCode.POLICY_VIOLATION
    wanted = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    partition.delete_records(wanted, exchange.now)
    if compacts:
        return ErrorCode.POLICY_VIOLATION
    result.low_watermark = partition.replication.low_watermark
    if result.low_watermark < wanted:
        awaited.append(Awaited(partition, wanted, result))
        return ErrorCode.REQUEST_TIMED_OUT  # `_wait` clears this error code if the replicas delete the records in time
    return ErrorCode.NONE


def _wait(awaited: list[Awaited], timeout_ms: int, response: DeleteRecordsResponse, exchange: Exchange) -> Message | Outcome:
    def is_over(each: Awaited, error: ErrorCode) -> bool:
        low_watermark = each.partition.replication.low_watermark
        if not error and low_watermark < each.required_offset:
            return False
        each.result.error_code = error
        each.result.low_watermark = UNKNOWN_LOW_WATERMARK if error else low_watermark
        return True

    return Delayed(exchange, awaited, is_over, response).wait(timeout_ms)
