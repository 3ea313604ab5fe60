"""AlterReplicaLogDirs, versions 1–2 (ReplicaManager.alterReplicaLogDirs).

Without a data directory a replica moves at once. With a data directory a replica moves right after the response, as in Kafka.
For a replica that does not exist yet, the broker remembers the directory until the replica is created.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.releases.changes import since

MOVES_REPLICAS = since("1.1", "AlterReplicaLogDirs moves existing replicas", "KIP-113")
CHECKS_MOVED_NAMES = since("2.2", "AlterReplicaLogDirs refuses a very long topic name with error 17")
FINDS_MOVED_PARTITIONS = since("2.1", "AlterReplicaLogDirs of an unknown partition gets error 3, not 9")

LONGEST_NAME = 255
FUTURE_SUFFIX = len(".") + 32 + len("-future")
"""The name of a future log's folder is this many characters longer than the name of the partition's folder."""


def handle(request: AlterReplicaLogDirsRequest, exchange: Exchange) -> Steps:
    """Respond with an error code for each replica. NONE means that the replica is in the directory, or will move there.

    A replica that is named twice gets the directory that is named last.
    """
    pause = pauses()
    wanted: dict[str, dict[int, str]] = {}
    for each in request.dirs:
        yield from pause()
        for topic in each.topics:
            yield from pause()
            if topic.partitions:
                wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, each.path))
    results = []
    for name, paths in wanted.items():
        partitions = []
        for index, path in paths.items():
            yield from pause()
            code = _error(name, index, path, exchange)
            partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
        results.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions))
    return AlterReplicaLogDirsResponse(results=results)


def _error(topic: str, index: int, path: str, exchange: Exchange) -> ErrorCode:
    release = exchange.cluster.configs.release
    if CHECKS_MOVED_NAMES.of(release) and len(f"{topic}-{index}") + FUTURE_SUFFIX > LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    node_id, log_dirs = exchange.node_id, exchange.cluster.log_dirs
    if path not in log_dirs.paths(node_id):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if path in log_dirs.cordoned(node_id):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition = exchange.cluster.partition(topic, index)
    if 0 <= index < exchange.cluster.deleting.get(topic, 0):
        return ErrorCode.NONE
    if partition is None or node_id not in partition.replicas:
        log_dirs.prefer(node_id, topic, index, path)
        unknown = partition is None and FINDS_MOVED_PARTITIONS.of(release)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else ErrorCode.REPLICA_NOT_AVAILABLE
    if partition.offline_at == node_id:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not MOVES_REPLICAS.of(release):
        return ErrorCode.NONE
    try:
        log_dirs.move(partition, node_id, path)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
