"""OffsetForLeaderEpoch, versions 2–4.

Where a leader epoch ended: the largest epoch at or below the one asked for that the log knows, and the offset after its
last record, by which a consumer finds out that what it has read was cut off (KIP-320). Both are −1 if there is none.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from wirebroker.core.leadership import leader_error
from wirebroker.core.slices import pauses
from wirebroker.exchange import Exchange, Steps


def handle(request: OffsetForLeaderEpochRequest, exchange: Exchange) -> Steps:
    """Answer with an epoch and its end for each partition."""
    pause = pauses()
    topics = []
    for topic in request.topics:
        ends: list[EpochEndOffset] = []
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        for asked in topic.partitions:
            if pause():
                yield None
            ends.append(_one(topic.topic, asked, exchange))
        if pause():
            yield None
    return OffsetForLeaderEpochResponse(topics=topics)


def _one(topic: str, asked: OffsetForLeaderPartition, exchange: Exchange) -> EpochEndOffset:
    partition = exchange.cluster.partition(topic, asked.partition)
    error = leader_error(partition, exchange.node_id, asked.current_leader_epoch)
    if error or partition is None:
        return EpochEndOffset(error_code=error, partition=asked.partition)
    epoch, end = partition.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(error_code=ErrorCode.NONE, partition=asked.partition, leader_epoch=epoch, end_offset=end)
