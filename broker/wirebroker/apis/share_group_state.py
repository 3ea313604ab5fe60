"""The state of share partitions: InitializeShareGroupState, ReadShareGroupState and DeleteShareGroupState (version 0),
WriteShareGroupState and ReadShareGroupStateSummary (versions 0–1).

The group coordinator and the partition leaders send these requests to the share coordinator. In wirebroker one process has all
these roles, and clients may send these requests, too. InitializeShareGroupState begins the state of a share partition, or
begins it again at another offset. A ReadShareGroupState with a higher leader epoch raises the known leader epoch. From then on,
requests with an older leader epoch are refused. DeleteShareGroupState also accepts a share partition without state.
ReadShareGroupStateSummary returns the epochs and the start offset, which is −1 without state. From version 1 on, it also
returns the number of completed records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafkawire.errors import ErrorCode
from kafkawire.messages import delete_share_group_state as delete
from kafkawire.messages import initialize_share_group_state as initialize
from kafkawire.messages import read_share_group_state as read
from kafkawire.messages import read_share_group_state_summary as summary
from kafkawire.messages import write_share_group_state as write
from kafkawire.registry import response_class
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import SLICE, pauses
from wirebroker.core.refusals import MESSAGES, Refusal
from wirebroker.core.releases.changes import since
from wirebroker.core.share.coordinator import WRITES, ShareCoordinator
from wirebroker.core.share.in_flight import Key, StateBatch

REFUSES_NEGATIVE_EPOCHS = since("4.4", "requests about the state of a share partition are refused if an epoch is negative")


class _Operation(NamedTuple):
    """The coordinator's method that one of these APIs calls for each partition, and the classes of the API's response."""

    call: Callable[[ShareCoordinator, Key, Any, list[StateBatch], int], Any]
    topic: type[Any]
    partition: type[Any]
    shown: Callable[[Any], dict[str, Any]] = lambda _: {}
    """Returns the response fields for a partition with this state; the state is None if the request was refused."""
    refused: str = "read share group state"
    """The action that the error message names if the broker does not coordinate the share partition."""
    every: int = WRITES
    """The number of partitions in a slice."""
    epochs: tuple[str, ...] = ()
    """Those epochs in the request that must not be negative."""


def _read(state: Any) -> dict[str, Any]:
    if state is None:
        return {"state_epoch": 0, "start_offset": 0, "state_batches": []}
    batches = [
        read.StateBatch(first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count)
        for first, last, kind, count in state.batches
    ]
    return {"state_epoch": state.state_epoch, "start_offset": state.start_offset, "state_batches": batches}


def _summary(state: Any) -> dict[str, Any]:
    if state is None:
        return {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0}
    return {
        "state_epoch": state.state_epoch, "leader_epoch": state.leader_epoch, "start_offset": state.start_offset,
        "delivery_complete_count": state.completed,
    }  # fmt: skip


_OPERATIONS = {
    initialize.InitializeShareGroupStateRequest: _Operation(
        lambda states, key, each, _, now: states.initialize(key, each.state_epoch, each.start_offset, now),
        initialize.InitializeStateResult, initialize.PartitionResult, refused="initialize share group state", epochs=("state",),
    ),
    read.ReadShareGroupStateRequest: _Operation(
        lambda states, key, each, _, now: states.read(key, each.leader_epoch, now),
        read.ReadStateResult, read.PartitionResult, _read, epochs=("leader",),
    ),
    write.WriteShareGroupStateRequest: _Operation(
        lambda states, key, each, batches, now: states.write(
            key, each.state_epoch, each.leader_epoch, each.start_offset, each.delivery_complete_count, batches, now
        ),
        write.WriteStateResult, write.PartitionResult, refused="write share group state", every=SLICE // 2,
        epochs=("leader", "state"),
    ),
    delete.DeleteShareGroupStateRequest: _Operation(
        lambda states, key, _, __, now: states.delete(key, now),
        delete.DeleteStateResult, delete.PartitionResult, refused="delete share group state",
    ),
    summary.ReadShareGroupStateSummaryRequest: _Operation(
        lambda states, key, _, __, ___: states.summary(key),
        summary.ReadStateSummaryResult, summary.PartitionResult, _summary, "read share group state summary", SLICE // 2,
    ),
}  # fmt: skip


def handle(request: Any, exchange: Exchange) -> Steps:
    operation, states = _OPERATIONS[type(request)], exchange.engine.groups.share_state
    pause, results = pauses(operation.every), dict[bytes, dict[int, Any]]()
    begins = isinstance(request, initialize.InitializeShareGroupStateRequest)
    complete = bool(request.group_id) and (begins or all(topic.partitions for topic in request.topics))
    for topic in request.topics if complete else ():  # Kafka's response to an incomplete request has no results
        for each in topic.partitions:
            yield from pause()
            batches = []
            for batch in getattr(each, "state_batches", ()):
                yield from pause()
                batches.append(StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count))
            key = (request.group_id, topic.topic_id, each.partition)
            if error := states.coordinator_error(key, exchange.node_id):
                state: Any = Refusal(error, f"Unable to {operation.refused}: {MESSAGES.get(error)}")
            elif refused := _negative_epoch(each, operation.epochs, exchange):
                state = refused
            else:
                state = operation.call(states, key, each, batches, exchange.now)
            (code, message), state = (state, None) if isinstance(state, Refusal) else ((0, None), state)
            shown = operation.shown(state)
            result = operation.partition(partition=each.partition, error_code=code, error_message=message, **shown)
            results.setdefault(topic.topic_id, {})[each.partition] = result
    made: Any = response_class(exchange.api_key)
    topics = [operation.topic(topic_id=topic_id, partitions=list(each.values())) for topic_id, each in results.items()]
    return made(results=topics)  # type: ignore[no-any-return]


def _negative_epoch(each: Any, epochs: tuple[str, ...], exchange: Exchange) -> Refusal | None:
    """Returns a refusal if the partition has a negative epoch, else None. A negative partition index is refused elsewhere."""
    if each.partition < 0 or not REFUSES_NEGATIVE_EPOCHS.of(exchange.cluster.configs.release):
        return None
    for epoch in epochs:
        if getattr(each, f"{epoch}_epoch") < 0:
            return Refusal(ErrorCode.INVALID_REQUEST, f"The {epoch} epoch cannot be a negative number.")
    return None
