"""AlterReplicaLogDirs, versions 1–2.

A broker has one log directory, which already holds each replica. Any other is LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from wirebroker.apis.describe_log_dirs import log_dir
from wirebroker.exchange import Exchange, Steps
from wirebroker.slices import pauses

LONGEST_NAME = 255
FUTURE_SUFFIX = len(".") + 32 + len("-future")
"""The length that the folder name of a partition's future log adds to its topic and index."""


def handle(request: AlterReplicaLogDirsRequest, exchange: Exchange) -> Steps:
    """Answer for each replica whether it is in the directory; a replica named twice has its last directory."""
    pause = pauses()
    wanted: dict[str, dict[int, str]] = {}
    for each in request.dirs:
        if pause():
            yield None
        for topic in each.topics:
            if pause():
                yield None
            wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, each.path))
    results = []
    for name, paths in wanted.items():
        partitions = []
        for index, path in paths.items():
            if pause():
                yield None
            code = _error(name, index, path, exchange)
            partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
        results.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions))
    return AlterReplicaLogDirsResponse(results=results)


def _error(topic: str, index: int, path: str, exchange: Exchange) -> ErrorCode:
    if len(f"{topic}-{index}") + FUTURE_SUFFIX > LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != log_dir(exchange.cluster.configs):
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = exchange.cluster.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if exchange.node_id in partition.replicas else ErrorCode.REPLICA_NOT_AVAILABLE
