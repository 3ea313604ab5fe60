"""DescribeLogDirs, versions 1–5.

The partitions that the asked broker holds, with their sizes in bytes, all in one directory. Without --data logs are kept
in memory, and the directory is the one that the settings name. Its volume is unknown (−1).
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
from wirebroker.exchange import Exchange


def handle(request: DescribeLogDirsRequest, exchange: Exchange) -> DescribeLogDirsResponse:
    """Answer with the sizes of the partitions asked for; null asks for all."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    topics = []
    for topic in exchange.cluster.topics.values():
        held = [
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=partition.log.size, offset_lag=0, is_future_key=False
            )
            for partition in topic.partitions
            if exchange.node_id in partition.replicas and (wanted is None or (topic.name, partition.index) in wanted)
        ]
        if held:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=held))
    store = exchange.engine.store
    if store is None:
        directory = log_dir(exchange.cluster.configs)
    else:
        directory = str(store.directories[exchange.node_id].root.resolve())
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=directory, topics=topics)
    return DescribeLogDirsResponse(results=[result])


def log_dir(configs: BrokerConfigs) -> str:
    """The directory of a broker's logs."""
    return (configs.text("log.dirs") or configs.text("log.dir")).split(",")[0]
