"""OffsetDelete, version 0: forget committed offsets of topics that the group's members do not subscribe to."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkawire.primitives import ZERO_UUID
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.offset_commit import REPEATS_COMMITTED_TOPICS, TopicName, merged
from wirebroker.common.slices import SLICE, pauses
from wirebroker.core.groups.offsets import TopicPartition
from wirebroker.core.releases.changes import until

REPEATS_DELETED_OFFSETS = until("2.6", "the response to OffsetDelete has each topic once, and not once for each partition")


def handle(request: OffsetDeleteRequest, exchange: Exchange) -> Steps:
    """Delete the offsets that may be deleted; each partition has its own error."""
    if error := _error(request, exchange):
        return exchange.refused(error)
    groups = exchange.engine.groups
    topics, gone = yield from _checked(request, exchange)
    for i in range(0, len(gone), SLICE):
        if i:
            yield None
        error = _error(request, exchange) or groups.commits.delete(request.group_id, gone[i : i + SLICE], exchange.now)
        if error:
            return exchange.refused(error)
    groups.offsets_deleted(request.group_id, exchange.now)
    if REPEATS_DELETED_OFFSETS.of(exchange.cluster.configs.release):
        topics = [topic for topic in topics for _ in topic.partitions]
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


def _checked(
    request: OffsetDeleteRequest, exchange: Exchange
) -> Generator[None, Any, tuple[list[OffsetDeleteResponseTopic], list[TopicPartition]]]:
    """Returns the topics of the response, and the partitions whose offsets are to be deleted."""
    groups, topics = exchange.engine.groups, exchange.cluster.topics
    group = groups.groups[request.group_id]
    refused: dict[TopicName, list[OffsetDeleteResponsePartition]] = {}
    others: list[tuple[TopicName, list[OffsetDeleteResponsePartition]]] = []
    gone: list[TopicPartition] = []
    pause, apart = pauses(), REPEATS_COMMITTED_TOPICS.of(exchange.cluster.configs.release)
    for topic in request.topics:
        yield from pause()
        name, responses = (topic.name, ZERO_UUID), list[OffsetDeleteResponsePartition]()
        if topic.name not in topics and apart:
            refused.setdefault(name, [])
        found = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes(topic.name) else ErrorCode.NONE
        for partition in topic.partitions:
            yield from pause()
            where = (topic.name, partition.partition_index)
            exists = exchange.cluster.partition(*where) is not None
            code = found if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response = OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
            (responses if exists and apart else refused.setdefault(name, [])).append(response)
            if not code and groups.offsets.has(request.group_id, where):
                gone.append(where)
        if responses:
            others.append((name, responses))
    named = merged(refused, others, repeats=True)
    return [OffsetDeleteResponseTopic(name=name, partitions=parts) for (name, _), parts in named], gone


def _error(request: OffsetDeleteRequest, exchange: Exchange) -> ErrorCode:
    groups = exchange.engine.groups
    return groups.membership_error(request.group_id, exchange.node_id) or groups.commits.deletion_error(request.group_id)
