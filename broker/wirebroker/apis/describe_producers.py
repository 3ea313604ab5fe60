"""DescribeProducers, version 0.

The producers whose state a partition keeps: what the validator of duplicates and gaps goes by. The start of an open
transaction is −1 where there is none, and so is the coordinator epoch before the first end marker.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from wirebroker.core.leadership import leader_fault
from wirebroker.core.names import topic_name_fault
from wirebroker.core.partition import Partition
from wirebroker.core.producers import unpack
from wirebroker.exchange import Exchange


def handle(request: DescribeProducersRequest, exchange: Exchange) -> DescribeProducersResponse:
    """Answer with the producers of each partition."""
    topics = []
    for topic in request.topics:
        partitions = [_one(topic.name, index, exchange) for index in topic.partition_indexes]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _one(topic: str, index: int, exchange: Exchange) -> PartitionResponse:
    fault = topic_name_fault(topic)
    if fault is not None:
        return PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            error_message=fault,
            active_producers=[],
        )
    if topic not in exchange.cluster.topics:
        return PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="This server does not host this topic-partition.",
            active_producers=[],
        )
    partition = exchange.cluster.partition(topic, index)
    code = leader_fault(partition, exchange.node_id)
    if code or partition is None:
        return PartitionResponse(partition_index=index, error_code=code, active_producers=[])
    return PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=_producers(partition))


def _producers(partition: Partition) -> list[ProducerState]:
    states = []
    for key, packed in partition.producers.items():
        if not isinstance(key, int):
            continue
        state = unpack(packed)
        states.append(
            ProducerState(
                producer_id=key,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.current_txn_first_offset,
            )
        )
    return states
