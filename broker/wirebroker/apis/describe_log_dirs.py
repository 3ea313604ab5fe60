"""DescribeLogDirs, versions 1–5.

The partitions on the broker that gets the request, with their sizes in bytes, in one directory. Without --data logs are kept
in memory, and the directory is the one in the settings. The size of its volume is unknown (−1).
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.partition import Partition
from wirebroker.exchange import Exchange, Steps
from wirebroker.slices import pauses


def handle(request: DescribeLogDirsRequest, exchange: Exchange) -> Steps:
    """Answer with the sizes of the requested partitions; null means all."""
    pause = pauses()
    wanted: dict[str, set[int]] = {}
    for requested in request.topics or ():
        indexes = wanted.setdefault(requested.topic, set())
        for index in requested.partitions:
            if pause():
                yield None
            indexes.add(index)
        if pause():
            yield None
    topics = []
    for topic in list(exchange.cluster.topics.values()):
        held: list[DescribeLogDirsPartition] = []
        if request.topics is None or topic.name in wanted:
            for partition in list(topic.partitions):
                if pause():
                    yield None
                if request.topics is None or partition.index in wanted[topic.name]:
                    held += _held(partition, exchange.node_id)
        if pause():
            yield None
        if held:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=held))
    store = exchange.engine.store
    if store is None:
        directory = log_dir(exchange.cluster.configs)
    else:
        directory = str(store.directories[exchange.node_id].root.resolve())
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory, topics=topics)
    return DescribeLogDirsResponse(results=[result])


def _held(partition: Partition, node_id: int) -> list[DescribeLogDirsPartition]:
    """The partition's entry; empty if this broker does not hold it."""
    if node_id not in partition.replicas or partition.deleted:
        return []
    size = partition.log.size
    return [DescribeLogDirsPartition(partition_index=partition.index, partition_size=size, offset_lag=0, is_future_key=False)]


def log_dir(configs: BrokerConfigs) -> str:
    """The directory of a broker's logs."""
    return (configs.text("log.dirs") or configs.text("log.dir")).split(",")[0]
