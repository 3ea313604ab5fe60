"""OffsetCommit and OffsetFetch, version 0: offsets in ZooKeeper. Any client may write these offsets. The request has no
generation.

Later versions of these APIs do not see these offsets. A KRaft broker returns UNSUPPORTED_VERSION for each partition. These
offsets are kept in memory, even with a data directory.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkawire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from wirebroker.apis.exchange import Exchange

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(request: OffsetCommitRequest, exchange: Exchange) -> OffsetCommitResponse:
    """Remember the offsets of existing partitions. As in Kafka, unknown partitions come first in the response."""
    unknown: dict[str, list[OffsetCommitResponsePartition]] = {}
    known: dict[str, list[OffsetCommitResponsePartition]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            exists = exchange.cluster.partition(topic.name, partition.partition_index) is not None
            code = _committed(request.group_id, topic.name, partition, exchange) if exists else UNKNOWN
            response = OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            (known if exists else unknown).setdefault(topic.name, []).append(response)
    for name, partitions in known.items():
        unknown.setdefault(name, []).extend(partitions)
    return OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name=name, partitions=parts) for name, parts in unknown.items()]
    )


def _committed(group: str, topic: str, requested: OffsetCommitRequestPartition, exchange: Exchange) -> ErrorCode:
    if not exchange.cluster.configs.release.has_zookeeper:
        return ErrorCode.UNSUPPORTED_VERSION
    if error := exchange.engine.groups.commits.metadata_error(requested.committed_metadata):
        return error
    if not group:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # an empty text cannot name a node in ZooKeeper
    exchange.engine.groups.zookeeper_offsets[group, topic, requested.partition_index] = requested.committed_offset
    return ErrorCode.NONE


def fetch(request: OffsetFetchRequest, exchange: Exchange) -> OffsetFetchResponse:
    """Respond with the offsets; UNKNOWN_TOPIC_OR_PARTITION for an offset that was never committed."""
    topics = []
    for topic in request.topics or ():
        partitions = [_fetched(request.group_id, topic.name, index, exchange) for index in topic.partition_indexes]
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(topics=topics)


def _fetched(group: str, topic: str, index: int, exchange: Exchange) -> OffsetFetchResponsePartition:
    code, offset = UNKNOWN, -1
    if not exchange.cluster.configs.release.has_zookeeper:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif exchange.cluster.partition(topic, index) is not None:
        held = exchange.engine.groups.zookeeper_offsets.get((group, topic, index))
        code, offset = (UNKNOWN, -1) if held is None else (ErrorCode.NONE, held)
    return OffsetFetchResponsePartition(partition_index=index, committed_offset=offset, metadata="", error_code=code)
