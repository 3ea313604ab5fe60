"""OffsetCommit, versions 2–10, and 0–1 of releases before 4.0. Version 0 is in `apis.zookeeper_offsets`.

A member commits with its member id and its generation, or in a consumer group with its epoch (KIP-848, from version 9). Any
client may commit to a group without members (generation −1). Each partition has its own error code: UNKNOWN_TOPIC_OR_PARTITION
(from version 10 UNKNOWN_TOPIC_ID) or OFFSET_METADATA_TOO_LARGE.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.common.slices import SLICE, pauses
from wirebroker.core.cluster import Topic
from wirebroker.core.groups.commit import Commit
from wirebroker.core.groups.group import Committer
from wirebroker.core.groups.offsets import Committed, expires_at
from wirebroker.core.releases.changes import since

REPEATS_COMMITTED_TOPICS = since("4.0", "OffsetCommit and OffsetFetch respond for each topic as named", "KIP-848")
FINDS_COMMITTED_PARTITIONS = since("2.0", "commits of offsets refuse unknown partitions of a known topic")

P = TypeVar("P")
TopicName = tuple[str, bytes]
"""A topic's name and id. In each version of a request, one of them is empty."""
Known = tuple[Topic, OffsetCommitRequestTopic, OffsetCommitRequestPartition, ErrorCode]
"""An existing partition that the request names, and the error of its offset."""
RETENTION_OF_BROKER = -1
"""The value of the retention time that means the broker's default."""
NOW = -1
"""The value of the commit timestamp in version 1 that means the broker's clock.

In all other versions, this value is the default of the field.
"""


def handle(request: OffsetCommitRequest, exchange: Exchange) -> Steps:
    """Remember the valid offsets. As in Kafka, unknown partitions come first in the response."""
    if exchange.version == 0:
        from wirebroker.apis import zookeeper_offsets  # only releases before 4.0 need this module

        return zookeeper_offsets.commit(request, exchange)
    refused: dict[TopicName, list[OffsetCommitResponsePartition]] = {}
    known: list[Known] = []
    pause, release = pauses(), exchange.cluster.configs.release
    commit = exchange.engine.groups.commits.new(request.group_id, exchange.now)
    for requested in request.topics:
        yield from pause()
        topic = exchange.cluster.find_topic(requested.name, requested.topic_id)
        by_id = topic is None and exchange.version >= 10
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and REPEATS_COMMITTED_TOPICS.of(release):
            refused.setdefault((requested.name, requested.topic_id), [])
        for partition in requested.partitions:
            yield from pause()
            finds = FINDS_COMMITTED_PARTITIONS.of(release)
            if topic is None or (finds and topic.partition(partition.partition_index) is None):
                refused.setdefault((requested.name, requested.topic_id), []).append(_response(partition, code))
                continue
            error = metadata_error(partition.committed_metadata, exchange)
            known.append((topic, requested, partition, error))
            if not error:
                commit.add((topic.name, partition.partition_index), _committed(partition, request, exchange))
    batch = yield from encode_batch(commit)
    code = ErrorCode.NONE
    if known:
        where = [(topic.topic_id, partition.partition_index) for topic, _, partition, error in known if not error]
        code = _error(request, exchange, where) or exchange.engine.groups.commits.commit(commit, batch, exchange.now)
    committed: list[tuple[OffsetCommitRequestTopic, list[OffsetCommitResponsePartition]]] = []
    for _, requested, partition, error in known:
        yield from pause()
        if not committed or committed[-1][0] is not requested:
            committed.append((requested, []))
        committed[-1][1].append(_response(partition, code or error))
    named = [((requested.name, requested.topic_id), parts) for requested, parts in committed]
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in merged(refused, named, REPEATS_COMMITTED_TOPICS.of(release))
        ]
    )


def merged(
    refused: dict[TopicName, list[P]], others: list[tuple[TopicName, list[P]]], repeats: bool
) -> list[tuple[TopicName, list[P]]]:
    """Returns the topics of a response: those with unknown partitions, and others as they are named. As in Kafka
    (OffsetCommitResponse.Builder.merge), the parts of a topic are put together only if there are unknown partitions, or if
    `repeats` is not set."""
    if repeats and not refused:
        return others
    for name, parts in others:
        refused.setdefault(name, []).extend(parts)
    return list(refused.items())


def _response(partition: OffsetCommitRequestPartition, code: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)


def _error(request: OffsetCommitRequest, exchange: Exchange, where: list[tuple[bytes, int]]) -> ErrorCode:
    groups = exchange.engine.groups
    by = Committer(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    error = groups.coordinator_error(request.group_id, exchange.node_id) or groups.commits.error(
        request.group_id, by, exchange.version, exchange.now, where
    )
    return error or groups.commits.log_error(request.group_id)


def metadata_error(metadata: str | None, exchange: Exchange) -> ErrorCode:
    """OFFSET_METADATA_TOO_LARGE if the metadata are too long, else NONE."""
    if len(metadata or "") > exchange.cluster.configs.integer("offset.metadata.max.bytes"):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def encode_batch(commit: Commit) -> Generator[Offload, Any, bytes | None]:
    """The batch of the commit, or None if it cannot be written. A thread builds a large batch."""
    if len(commit.offsets) <= SLICE:
        return commit.batch()
    batch: bytes | None = yield Offload(commit.batch)
    return batch


def _committed(requested: OffsetCommitRequestPartition, request: OffsetCommitRequest, exchange: Exchange) -> Committed:
    keep_ms = request.retention_time_ms
    expires = expires_at(exchange.now, keep_ms) if keep_ms != RETENTION_OF_BROKER else None
    metadata = requested.committed_metadata or ""
    committed_at = exchange.now if requested.commit_timestamp == NOW else requested.commit_timestamp
    return Committed(requested.committed_offset, requested.committed_leader_epoch, metadata, committed_at, expires)
