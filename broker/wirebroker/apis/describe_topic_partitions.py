"""DescribeTopicPartitions, version 0.

DescribeTopicPartitions returns the partitions of topics, in the order of the topics' names. The request limits the number of
partitions, and so does the broker's max.request.partition.size.limit. If partitions remain, `next_cursor` says where the next
request should continue. An empty list means all topics.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kafkawire.primitives import ZERO_UUID
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata import ALL_TOPIC_OPERATIONS
from wirebroker.common.slices import pauses
from wirebroker.core.cluster import Cluster, Topic
from wirebroker.core.java_order import signed
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition


def handle(request: DescribeTopicPartitionsRequest, exchange: Exchange) -> Steps:
    cluster, cursor = exchange.cluster, request.cursor
    everything = not request.topics
    names = sorted(cluster.topics if everything else {topic.name for topic in request.topics})
    if has_wrong_cursor(request):
        return _refused(request, ErrorCode.INVALID_REQUEST)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    if "" in names:
        # Kafka asks its authorizer about every topic, and the authorizer fails on an empty name.
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    limit = cluster.configs.integer("max.request.partition.size.limit")
    left = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    pause = pauses()
    for name in names:
        yield from pause()
        if left == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = cluster.topics.get(name)
        if topic is None:
            if not everything:
                response.topics.append(_unknown(name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(signed(start + left), len(topic.partitions))
        page = topic.partitions[start:end] if end >= 0 else []
        left -= len(page)
        response.topics.append(_topic(topic, page, cluster))
        if end < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=end)
            break
    return response


def has_wrong_cursor(request: DescribeTopicPartitionsRequest, _: int = 0) -> bool:
    """Tells whether the cursor has a negative partition, or a topic that the request does not list. An empty list stands for
    all topics."""
    cursor, topics = request.cursor, request.topics
    if cursor is None:
        return False
    return cursor.partition_index < 0 or (bool(topics) and all(topic.name != cursor.topic_name for topic in topics))


def _refused(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    refused = [
        DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name, topic_id=ZERO_UUID, partitions=[])
        for topic in request.topics
    ]
    return DescribeTopicPartitionsResponse(topics=refused)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad = topic_name_error(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        topic_id=ZERO_UUID,
        partitions=[],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _topic(topic: Topic, page: list[Partition], cluster: Cluster) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition(partition, cluster) for partition in page],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _partition(partition: Partition, cluster: Cluster) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync),
        # Java's admin client fails on a null list in this field.
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=[] if partition.last_known_leader is None else [partition.last_known_leader],
        offline_replicas=cluster.offline(partition),
    )
