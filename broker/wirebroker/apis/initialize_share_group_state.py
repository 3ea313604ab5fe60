"""InitializeShareGroupState, version 0: begin the state of share partitions, or begin it again at another offset.

The group coordinator sends this to the share coordinator; here one process is both, and other clients may send it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkawire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.refusals import MESSAGES, Refusal
from wirebroker.core.share.coordinator import WRITES
from wirebroker.core.share.in_flight import Key


def handle(request: InitializeShareGroupStateRequest, exchange: Exchange) -> Steps:
    """Respond for each partition."""
    pause, results = pauses(WRITES), []
    for topic in request.topics if request.group_id else ():
        partitions = []
        for each in topic.partitions:
            if pause():
                yield None
            key = (request.group_id, topic.topic_id, each.partition)
            state = exchange.engine.groups.share_state
            refused = coordinated("initialize", key, exchange) or state.initialize(
                key, each.state_epoch, each.start_offset, exchange.now
            )
            code, message = refused or (0, None)
            partitions.append(PartitionResult(partition=each.partition, error_code=code, error_message=message))
        results.append(InitializeStateResult(topic_id=topic.topic_id, partitions=partitions))
    return InitializeShareGroupStateResponse(results=results)


def coordinated(verb: str, key: Key, exchange: Exchange, what: str = "state") -> Refusal | None:
    """The refusal if this broker does not coordinate the share partition, else None; `verb` names the refused act."""
    error = exchange.engine.groups.share_state.coordinator_error(key, exchange.node_id)
    return Refusal(error, f"Unable to {verb} share group {what}: {MESSAGES.get(error)}") if error else None


def is_complete(group_id: str, topics: Sequence[Any]) -> bool:
    """Whether the request names a group, and partitions of every topic; Kafka returns no results to other requests."""
    return bool(group_id) and all(topic.partitions for topic in topics)
