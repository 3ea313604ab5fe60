"""DescribeQuorum, versions 0–2.

All brokers are voters of one quorum. The leader of the quorum is the controller that clients see. wirebroker has no Raft: the
metadata are in the memory of one process, and the high watermark counts metadata changes. As in Kafka, a request that names
anything besides partition 0 of the metadata topic gets UNKNOWN_TOPIC_OR_PARTITION for all its partitions, and a successful
response has an empty error message.
"""

from __future__ import annotations

from kafkawire.disk.names import METADATA_TOPIC
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from wirebroker.apis.exchange import Exchange
from wirebroker.core.cluster import Cluster

EPOCH = 1


def handle(request: DescribeQuorumRequest, exchange: Exchange) -> DescribeQuorumResponse:
    """Respond with the voters."""
    requested = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if requested != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(
            error_code=ErrorCode.NONE,
            topics=[
                ResponseTopicData(topic_name=name, partitions=[_unknown(index) for index in indexes])
                for name, indexes in requested
            ],
        )
    topic = ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(exchange.cluster, exchange.now)])
    nodes = [Node(node_id=node_id, listeners=[]) for node_id in exchange.cluster.brokers]
    return DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=[topic], nodes=nodes)


def _quorum(cluster: Cluster, now: int) -> ResponsePartitionData:
    voters = [
        ReplicaState(replica_id=node_id, log_end_offset=cluster.version, last_fetch_timestamp=now, last_caught_up_timestamp=now)
        for node_id in cluster.brokers
    ]
    return ResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=min(node_id for node_id, broker in cluster.brokers.items() if broker.running),
        leader_epoch=EPOCH,
        high_watermark=cluster.version,
        current_voters=voters,
        observers=[],
    )


def _unknown(index: int) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )
