"""ReadShareGroupState, version 0: the state of share partitions, for the leaders of their partitions.

A higher leader epoch than before is remembered: older leaders are refused from then on.
"""

from __future__ import annotations

from kafkawire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.initialize_share_group_state import coordinated, is_complete
from wirebroker.common.slices import pauses
from wirebroker.core.refusals import Refusal
from wirebroker.core.share.coordinator import WRITES
from wirebroker.core.share.in_flight import Key


def handle(request: ReadShareGroupStateRequest, exchange: Exchange) -> Steps:
    """Respond for each partition."""
    pause, results = pauses(WRITES), []
    for topic in request.topics if is_complete(request.group_id, request.topics) else ():
        partitions = []
        for each in topic.partitions:
            if pause():
                yield None
            key = (request.group_id, topic.topic_id, each.partition)
            partitions.append(_read(key, each.leader_epoch, exchange))
        results.append(ReadStateResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateResponse(results=results)


def _read(key: Key, leader_epoch: int, exchange: Exchange) -> PartitionResult:
    state = coordinated("read", key, exchange) or exchange.engine.groups.share_state.read(key, leader_epoch, exchange.now)
    if isinstance(state, Refusal):
        return PartitionResult(
            partition=key[2], error_code=state.code, error_message=state.message, state_epoch=0, start_offset=0,
            state_batches=[],
        )  # fmt: skip
    batches = [
        StateBatch(first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count)
        for first, last, kind, count in state.batches
    ]
    return PartitionResult(
        partition=key[2], error_code=0, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches
    )
