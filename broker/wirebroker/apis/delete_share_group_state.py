"""DeleteShareGroupState, version 0: forget the state of share partitions. There may be none."""

from __future__ import annotations

from kafkawire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.initialize_share_group_state import coordinated, is_complete
from wirebroker.common.slices import pauses
from wirebroker.core.share.coordinator import WRITES


def handle(request: DeleteShareGroupStateRequest, exchange: Exchange) -> Steps:
    """Respond for each partition."""
    pause, results = pauses(WRITES), []
    for topic in request.topics if is_complete(request.group_id, request.topics) else ():
        partitions = []
        for each in topic.partitions:
            if pause():
                yield None
            key = (request.group_id, topic.topic_id, each.partition)
            refused = coordinated("delete", key, exchange) or exchange.engine.groups.share_state.delete(key, exchange.now)
            code, message = refused or (0, None)
            partitions.append(PartitionResult(partition=each.partition, error_code=code, error_message=message))
        results.append(DeleteStateResult(topic_id=topic.topic_id, partitions=partitions))
    return DeleteShareGroupStateResponse(results=results)
