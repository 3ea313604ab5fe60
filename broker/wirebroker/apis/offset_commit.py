"""OffsetCommit, versions 2–10.

A member commits with its id and its generation, or its epoch in a consumer group (KIP-848, from version 9); a group
without members takes offsets from anybody (generation −1). Each
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
from wirebroker.core.groups.offsets import Committed, expires_at
from wirebroker.exchange import Exchange

RETENTION_OF_BROKER = -1
"""Says that an offset is kept for as long as the broker keeps offsets."""


def handle(request: OffsetCommitRequest, exchange: Exchange) -> OffsetCommitResponse:
    """Remember the offsets that may be committed. Partitions that do not exist are answered first, as Kafka does."""
    answers: dict[tuple[str, bytes], list[OffsetCommitResponsePartition]] = {}
    known: list[tuple[Topic, OffsetCommitRequestTopic, list[OffsetCommitRequestPartition]]] = []
    for asked in request.topics:
        topic = _topic(asked, exchange)
        exist: list[OffsetCommitRequestPartition] = []
        unknown: list[OffsetCommitRequestPartition] = []
        for partition in asked.partitions:
            found = topic is not None and topic.partition(partition.partition_index) is not None
            (exist if found else unknown).append(partition)
        if topic is not None and exist:
            known.append((topic, asked, exist))
        by_id = topic is None and exchange.version >= 10
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        _answer(answers, asked, unknown, code)
    where = [
        (topic.topic_id, partition.partition_index)
        for topic, _, partitions in known
        for partition in partitions
        if not metadata_fault(partition.committed_metadata, exchange)
    ]
    fault = _fault(request, exchange, where) if known else ErrorCode.NONE
    if known and not fault:
        offsets = {
            (topic.name, partition.partition_index): _committed(partition, request, exchange)
            for topic, _, partitions in known
            for partition in partitions
            if not metadata_fault(partition.committed_metadata, exchange)
        }
        fault = exchange.engine.groups.commit(request.group_id, offsets, exchange.now)
    for _, asked, partitions in known:
        for partition in partitions:
            _answer(answers, asked, [partition], fault or metadata_fault(partition.committed_metadata, exchange))
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in answers.items()
        ]
    )


def _answer(
    answers: dict[tuple[str, bytes], list[OffsetCommitResponsePartition]],
    asked: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], code: ErrorCode,
) -> None:  # fmt: skip
    if partitions:
        answers.setdefault((asked.name, asked.topic_id), []).extend(
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        )


def _fault(request: OffsetCommitRequest, exchange: Exchange, where: list[tuple[bytes, int]]) -> ErrorCode:
    groups = exchange.engine.groups
    fault = groups.here(request.group_id, exchange.node_id) or groups.commit_fault(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch,
        exchange.version, exchange.now, where,
    )  # fmt: skip
    return fault or groups.log_fault(request.group_id)


def _topic(asked: OffsetCommitRequestTopic, exchange: Exchange) -> Topic | None:
    cluster = exchange.cluster
    return cluster.topics_by_id.get(asked.topic_id) if exchange.version >= 10 else cluster.topics.get(asked.name)


def metadata_fault(metadata: str | None, exchange: Exchange) -> ErrorCode:
    """Whether what the client wants to keep with an offset is too long."""
    if len(metadata or "") > exchange.cluster.configs.integer("offset.metadata.max.bytes"):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(asked: OffsetCommitRequestPartition, request: OffsetCommitRequest, exchange: Exchange) -> Committed:
    keep_ms = request.retention_time_ms
    expires = expires_at(exchange.now, keep_ms) if keep_ms != RETENTION_OF_BROKER else None
    metadata = asked.committed_metadata or ""
    return Committed(asked.committed_offset, asked.committed_leader_epoch, metadata, exchange.now, expires)
