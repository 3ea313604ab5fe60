"""ListPartitionReassignments, version 0.

ListPartitionReassignments returns the reassignments in progress of the requested partitions; null means all partitions. As in
Kafka, unknown topics and partitions are not an error, and a topic without reassignments is not in the response.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.partition import Partition


def handle(request: ListPartitionReassignmentsRequest, exchange: Exchange) -> Steps:
    pause = pauses()
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition in _requested(request, exchange):
        yield from pause()
        if partition is not None and partition.moves:
            topics.setdefault(partition.topic, []).append(
                OngoingPartitionReassignment(
                    partition_index=partition.index, replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding), removing_replicas=list(partition.removing),
                )
            )  # fmt: skip
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None,
        topics=[OngoingTopicReassignment(name=name, partitions=partitions) for name, partitions in topics.items()],
    )  # fmt: skip


def _requested(request: ListPartitionReassignmentsRequest, exchange: Exchange) -> Iterable[Partition | None]:
    if request.topics is None:
        return list(exchange.cluster.partitions())
    named = ((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    return (exchange.cluster.partition(*each) for each in named)
