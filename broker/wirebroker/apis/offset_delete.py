"""OffsetDelete, version 0: forget committed offsets of topics that the group's members do not subscribe to."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import SLICE, pauses
from wirebroker.core.groups.offsets import TopicPartition


def handle(request: OffsetDeleteRequest, exchange: Exchange) -> Steps:
    """Delete the offsets that may be deleted; each partition has its own error."""
    if error := _error(request, exchange):
        return OffsetDeleteResponse(error_code=error, topics=[])
    groups = exchange.engine.groups
    group = groups.groups[request.group_id]
    pause = pauses()
    topics = []
    gone: list[TopicPartition] = []
    for topic in request.topics:
        if pause():
            yield None
        responses: list[OffsetDeleteResponsePartition] = []
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=responses))
        subscribed = group.subscribes(topic.name)
        for partition in topic.partitions:
            if pause():
                yield None
            where = (topic.name, partition.partition_index)
            code = ErrorCode.NONE
            if exchange.cluster.partition(*where) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif groups.offsets.has(request.group_id, where):
                gone.append(where)
            responses.append(OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code))
    for i in range(0, len(gone), SLICE):
        if i:
            yield None
        error = _error(request, exchange) or groups.commits.delete(request.group_id, gone[i : i + SLICE], exchange.now)
        if error:
            return OffsetDeleteResponse(error_code=error, topics=[])
    groups.offsets_deleted(request.group_id, exchange.now)
    if exchange.cluster.configs.release.behaviour.repeats_deleted_offsets:
        topics = [topic for topic in topics for _ in topic.partitions]
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


def _error(request: OffsetDeleteRequest, exchange: Exchange) -> ErrorCode:
    groups = exchange.engine.groups
    return groups.membership_error(request.group_id, exchange.node_id) or groups.commits.deletion_error(request.group_id)
