"""OffsetDelete, version 0: forget committed offsets of topics that the group's members do not subscribe to."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from wirebroker.exchange import Exchange


def handle(request: OffsetDeleteRequest, exchange: Exchange) -> OffsetDeleteResponse:
    """Forget what may be forgotten, each partition answered on its own."""
    groups = exchange.engine.groups
    fault = groups.membership_fault(request.group_id, exchange.node_id) or groups.deletion_fault(request.group_id)
    if fault:
        return OffsetDeleteResponse(error_code=fault, topics=[])
    group = groups.groups[request.group_id]
    topics = []
    gone = []
    for topic in request.topics:
        answers = []
        subscribed = groups.subscribes(group, topic.name)
        for partition in topic.partitions:
            where = (topic.name, partition.partition_index)
            code = ErrorCode.NONE
            if exchange.cluster.partition(*where) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                gone.append(where)
            answers.append(OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    if fault := groups.delete_offsets(request.group_id, gone, exchange.now):
        return OffsetDeleteResponse(error_code=fault, topics=[])
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
