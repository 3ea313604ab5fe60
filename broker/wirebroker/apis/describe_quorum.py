"""DescribeQuorum, versions 0–2.

All brokers are voters of one quorum. The leader of the quorum is the controller that clients see. wirebroker has no Raft: the
metadata are in the memory of one process. The high watermark is the end of the metadata log. Without data on disk, the high
watermark is the number of metadata changes. The timestamps of a running broker are the present time. If a request names
anything besides partition 0 of the metadata topic, all its partitions get UNKNOWN_TOPIC_OR_PARTITION, as in Kafka. As in Kafka,
a successful response has an empty error message.
"""

from __future__ import annotations

from kafkawire.disk.names import METADATA_TOPIC
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from wirebroker.apis.exchange import Exchange
from wirebroker.core.cluster import Broker, Cluster
from wirebroker.core.quorum import LISTENER, endpoint, voters
from wirebroker.core.refusals import UNKNOWN_PARTITION


def handle(request: DescribeQuorumRequest, exchange: Exchange) -> DescribeQuorumResponse:
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
    nodes = [
        Node(node_id=node_id, listeners=[_listener(broker, exchange.cluster)])
        for node_id, broker in exchange.cluster.brokers.items()
    ]
    return DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=[topic], nodes=nodes)


def _listener(broker: Broker, cluster: Cluster) -> Listener:
    host, port = endpoint(broker, cluster)
    return Listener(name=LISTENER, host=host, port=port)


def _quorum(cluster: Cluster, now: int) -> ResponsePartitionData:
    states = []
    for node_id, directory_id in voters(cluster):
        offset, seen = cluster.brokers[node_id].stopped or (cluster.metadata_offset, now)
        state = ReplicaState(replica_id=node_id, replica_directory_id=directory_id, log_end_offset=offset)
        state.last_fetch_timestamp = state.last_caught_up_timestamp = seen
        states.append(state)
    return ResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=min(node_id for node_id, broker in cluster.brokers.items() if broker.running),
        leader_epoch=cluster.quorum_epoch,
        high_watermark=cluster.metadata_offset,
        current_voters=states,
        observers=[],
    )


def _unknown(index: int) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=UNKNOWN_PARTITION.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )
