"""ReadShareGroupStateSummary, versions 0–1: epochs and start offsets of share partitions.

From version 1 the response also has the number of completed records. A share partition without state has the start offset −1.
"""

from __future__ import annotations

from kafkawire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.initialize_share_group_state import coordinated, is_complete
from wirebroker.common.slices import pauses
from wirebroker.core.refusals import Refusal
from wirebroker.core.share.in_flight import Key


def handle(request: ReadShareGroupStateSummaryRequest, exchange: Exchange) -> Steps:
    """Respond for each partition."""
    pause, results = pauses(), []
    for topic in request.topics if is_complete(request.group_id, request.topics) else ():
        partitions = []
        for each in topic.partitions:
            if pause():
                yield None
            partitions.append(_summary((request.group_id, topic.topic_id, each.partition), exchange))
        results.append(ReadStateSummaryResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateSummaryResponse(results=results)


def _summary(key: Key, exchange: Exchange) -> PartitionResult:
    state = coordinated("read", key, exchange, "state summary") or exchange.engine.groups.share_state.summary(key)
    if isinstance(state, Refusal):
        return PartitionResult(
            partition=key[2], error_code=state.code, error_message=state.message, state_epoch=0, leader_epoch=0, start_offset=0
        )
    return PartitionResult(
        partition=key[2], error_code=0, state_epoch=state.state_epoch, leader_epoch=state.leader_epoch,
        start_offset=state.start_offset, delivery_complete_count=state.completed,
    )  # fmt: skip
