"""OffsetForLeaderEpoch, versions 2–4.

Returns the largest known leader epoch at or below the requested epoch, and the offset after the last record of this epoch. A
consumer compares its position with this offset: a smaller offset means that records which the consumer has read were truncated
(KIP-320). The epoch and the offset are −1 if no epoch matches.
"""

from __future__ import annotations

from functools import partial

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.leadership import leader_error


def handle(request: OffsetForLeaderEpochRequest, exchange: Exchange) -> Steps:
    pause = pauses()
    topics = []
    for topic in request.topics:
        ends = yield from mapped(partial(_one, exchange, topic.topic), topic.partitions, pause)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        yield from pause()
    return OffsetForLeaderEpochResponse(topics=topics)


def _one(exchange: Exchange, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = exchange.cluster.partition(topic, requested.partition)
    error = leader_error(partition, exchange.node_id, requested.current_leader_epoch)
    if error or partition is None:
        return EpochEndOffset(error_code=error, partition=requested.partition)
    epoch, end = partition.end_offset_for_epoch(requested.leader_epoch)
    return EpochEndOffset(error_code=ErrorCode.NONE, partition=requested.partition, leader_epoch=epoch, end_offset=end)
