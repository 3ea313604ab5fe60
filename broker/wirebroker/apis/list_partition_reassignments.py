"""ListPartitionReassignments, version 0.

Replicas move at once, so that none is ever under way. Topics and partitions that do not exist are no error in Kafka.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from wirebroker.exchange import Exchange


def handle(request: ListPartitionReassignmentsRequest, exchange: Exchange) -> ListPartitionReassignmentsResponse:
    """Answer that there is none."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])
