"""DescribeLogDirs, versions 1–5 (ReplicaManager.describeLogDirs).

Returns the directories of the broker that gets the request, and the replicas in each directory with their sizes in bytes.
Without --data logs are kept in memory, and the size of a directory's volume is unknown (−1).

AlterReplicaLogDirs, versions 1–2 (ReplicaManager.alterReplicaLogDirs).

Without a data directory a replica moves at once. With a data directory a replica moves right after the response, as in Kafka.
For a replica that does not exist yet, the broker remembers the directory until the replica is created.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkawire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.partition import Partition
from wirebroker.core.releases.changes import since

MOVES_REPLICAS = since("1.1", "AlterReplicaLogDirs moves existing replicas", "KIP-113")
CHECKS_MOVED_NAMES = since("2.2", "AlterReplicaLogDirs refuses a very long topic name with error 17")
FINDS_MOVED_PARTITIONS = since("2.1", "AlterReplicaLogDirs of an unknown partition gets error 3, not 9")

UNKNOWN = -1
LONGEST_NAME = 255
FUTURE_SUFFIX = len(".") + 32 + len("-future")
"""The name of a future log's folder is this many characters longer than the name of the partition's folder."""


def describe_log_dirs(request: DescribeLogDirsRequest, exchange: Exchange) -> Steps:
    """Respond with the sizes of the requested partitions; null means all partitions."""
    pause = pauses()
    wanted: dict[str, set[int]] = {}
    for requested in request.topics or ():
        indexes = wanted.setdefault(requested.topic, set())
        for index in requested.partitions:
            yield from pause()
            indexes.add(index)
        yield from pause()
    found: dict[str, list[DescribeLogDirsTopic]] = {path: [] for path in exchange.cluster.log_dirs.paths(exchange.node_id)}
    for topic in list(exchange.cluster.topics.values()):
        held: dict[str, list[DescribeLogDirsPartition]] = {}
        if request.topics is None or topic.name in wanted:
            for partition in list(topic.partitions):
                yield from pause()
                if request.topics is None or partition.index in wanted[topic.name]:
                    for path, entry in _held(partition, exchange):
                        held.setdefault(path, []).append(entry)
        yield from pause()
        for path, entries in held.items():
            found[path].append(DescribeLogDirsTopic(name=topic.name, partitions=entries))
    return DescribeLogDirsResponse(results=[_result(path, topics, exchange) for path, topics in found.items()])


def _held(partition: Partition, exchange: Exchange) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    """Yields the directory and the entry of this broker's replica. If the replica is moving to another directory, also yields
    this other directory and a second entry. Yields nothing if this broker has no replica of the partition.
    """
    node_id, log_dirs = exchange.node_id, exchange.cluster.log_dirs
    if node_id not in partition.replicas or partition.deleted:
        return
    size, index = partition.log.size, partition.index
    held = DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
    yield log_dirs.of(partition, node_id), held
    if (future := log_dirs.future(partition, node_id)) is not None:
        lag = partition.log.end_offset
        yield future, DescribeLogDirsPartition(partition_index=index, partition_size=0, offset_lag=lag, is_future_key=True)


def _result(path: str, topics: list[DescribeLogDirsTopic], exchange: Exchange) -> DescribeLogDirsResult:
    total, usable = _volume(path) if exchange.engine.store is not None else (UNKNOWN, UNKNOWN)
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE, log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable,
        is_cordoned=path in exchange.cluster.log_dirs.cordoned(exchange.node_id),
    )  # fmt: skip


def _volume(path: str) -> tuple[int, int]:
    """Returns the size of the directory's volume, and its free space."""
    try:
        total, _, usable = shutil.disk_usage(path)
    except OSError:
        return UNKNOWN, UNKNOWN
    return total, usable


def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, exchange: Exchange) -> Steps:
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
    if node_id in partition.offline_at:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not MOVES_REPLICAS.of(release):
        return ErrorCode.NONE
    try:
        log_dirs.move(partition, node_id, path)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
