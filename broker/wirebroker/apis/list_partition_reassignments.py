"""ListPartitionReassignments, version 0.

Replicas move at once, so no reassignment is ever in progress. As in Kafka, unknown topics and partitions are not an error.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from wirebroker.exchange import Exchange


def handle(request: ListPartitionReassignmentsRequest, exchange: Exchange) -> ListPartitionReassignmentsResponse:
    """Answer with no reassignments."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
