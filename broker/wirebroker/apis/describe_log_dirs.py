"""DescribeLogDirs, versions 1–5 (ReplicaManager.describeLogDirs).

Returns the directories of the broker that gets the request, and the replicas in each directory with their sizes in bytes.
Without --data logs are kept in memory, and the size of a directory's volume is unknown (−1).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from kafkawire.errors import ErrorCode
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

UNKNOWN = -1


def handle(request: DescribeLogDirsRequest, exchange: Exchange) -> Steps:
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
