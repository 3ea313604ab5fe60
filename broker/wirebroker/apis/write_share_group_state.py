"""WriteShareGroupState, versions 0–1: changes of share partitions, from the leaders of their partitions."""

from __future__ import annotations

from kafkawire.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.initialize_share_group_state import coordinated, is_complete
from wirebroker.common.slices import pauses
from wirebroker.core.share.in_flight import StateBatch


def handle(request: WriteShareGroupStateRequest, exchange: Exchange) -> Steps:
    """Respond for each partition."""
    pause, results = pauses(), []
    for topic in request.topics if is_complete(request.group_id, request.topics) else ():
        partitions = []
        for each in topic.partitions:
            if pause():
                yield None
            key = (request.group_id, topic.topic_id, each.partition)
            batches = []
            for batch in each.state_batches:
                if pause():
                    yield None
                batches.append(StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count))
            refused = coordinated("write", key, exchange) or exchange.engine.groups.share_state.write(
                key, each.state_epoch, each.leader_epoch, each.start_offset, each.delivery_complete_count, batches, exchange.now
            )
            code, message = refused or (0, None)
            partitions.append(PartitionResult(partition=each.partition, error_code=code, error_message=message))
        results.append(WriteStateResult(topic_id=topic.topic_id, partitions=partitions))
    return WriteShareGroupStateResponse(results=results)
