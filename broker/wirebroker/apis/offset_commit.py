"""OffsetCommit, versions 2–10.

A member commits with its id and generation; a group without members takes offsets from anybody (generation −1). Each
partition is answered on its own: UNKNOWN_TOPIC_OR_PARTITION, from version 10 UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from wirebroker.core.cluster import Topic
from wirebroker.core.groups.offsets import Committed
from wirebroker.exchange import Exchange


def handle(request: OffsetCommitRequest, exchange: Exchange) -> OffsetCommitResponse:
    """Remember the offsets that may be committed."""
    groups = exchange.engine.groups
    fault = groups.here(request.group_id, exchange.node_id) or groups.may_commit(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch,
        exchange.now,
    )  # fmt: skip
    topics = []
    for asked in request.topics:
        topic = _topic(asked, exchange)
        answers = [
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index,
                error_code=_commit(request.group_id, topic, partition, fault, exchange),
            )
            for partition in asked.partitions
        ]
        topics.append(OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers))
    return OffsetCommitResponse(topics=topics)


def _topic(asked: OffsetCommitRequestTopic, exchange: Exchange) -> Topic | None:
    cluster = exchange.cluster
    return cluster.topics_by_id.get(asked.topic_id) if exchange.version >= 10 else cluster.topics.get(asked.name)


def _commit(
    group_id: str, topic: Topic | None, asked: OffsetCommitRequestPartition, fault: ErrorCode, exchange: Exchange
) -> ErrorCode:
    if topic is None and exchange.version >= 10:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or topic.partition(asked.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if fault:
        return fault
    metadata = asked.committed_metadata or ""
    if len(metadata) > exchange.cluster.configs.integer("offset.metadata.max.bytes"):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = Committed(asked.committed_offset, asked.committed_leader_epoch, metadata, exchange.now)
    exchange.engine.groups.commit(group_id, (topic.name, asked.partition_index), committed)
    return ErrorCode.NONE
