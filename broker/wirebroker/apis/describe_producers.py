"""DescribeProducers, version 0.

DescribeProducers returns the states of producers on a partition. The states decide which batches are duplicates, and which
batches leave gaps. Without an open transaction, the start of the transaction is −1. Before the first end marker, the
coordinator epoch is −1.
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
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.leadership import leader_error
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition
from wirebroker.core.producers import unpack
from wirebroker.core.refusals import UNKNOWN_PARTITION
from wirebroker.core.releases.changes import since

EXPLAINS_PRODUCERS = since("3.0", "errors of DescribeProducers have a message")


def handle(request: DescribeProducersRequest, exchange: Exchange) -> Steps:
    pause = pauses()
    topics = []
    known: dict[tuple[str, int], PartitionResponse] = {}
    for topic in request.topics:
        described: list[PartitionResponse] = []
        topics.append(TopicResponse(name=topic.name, partitions=described))
        for index in topic.partition_indexes:
            yield from pause()
            if (topic.name, index) in known:
                described.append(known[topic.name, index])
                continue
            partition, response = _found(topic.name, index, exchange)
            for key, packed in list(partition.producers.items()) if partition is not None else ():
                yield from pause()
                if isinstance(key, int):
                    response.active_producers.append(_producer(key, packed))
            described.append(response)
            known[topic.name, index] = response
        yield from pause()
    return DescribeProducersResponse(topics=topics)


def _found(topic: str, index: int, exchange: Exchange) -> tuple[Partition | None, PartitionResponse]:
    """Returns two values: the partition (None if this broker cannot describe it), and the partition's entry in the response,
    which has no producers yet."""
    response = PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=[])
    explains = EXPLAINS_PRODUCERS.of(exchange.cluster.configs.release)
    error = topic_name_error(topic)
    if explains and error is not None:
        response.error_code, response.error_message = ErrorCode.INVALID_TOPIC_EXCEPTION, error
        return None, response
    if topic not in exchange.cluster.topics:
        response.error_code = UNKNOWN_PARTITION.code
        response.error_message = UNKNOWN_PARTITION.message if explains else None
        return None, response
    partition = exchange.cluster.partition(topic, index)
    response.error_code = leader_error(partition, exchange.node_id, or_follower=True)
    return None if response.error_code else partition, response


def _producer(producer_id: int, packed: bytes) -> ProducerState:
    state = unpack(packed)
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.current_txn_first_offset,
    )
