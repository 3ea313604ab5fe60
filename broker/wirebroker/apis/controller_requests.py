"""The requests between the controller and the brokers of a cluster with ZooKeeper: LeaderAndIsr (versions 0–5), StopReplica
(0–3), UpdateMetadata (0–7), ControlledShutdown (0–3), AlterPartition (0) and AllocateProducerIds (0).

Every listener of a broker with ZooKeeper accepts these requests. wirebroker's brokers do not send these requests. The sender is
a client, which usually does not know the present epochs. A request with an old broker epoch gets STALE_BROKER_EPOCH. Otherwise,
a request with an old controller epoch gets STALE_CONTROLLER_EPOCH. A request with the present epochs changes nothing, because
the cluster itself moves leaders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.messages.alter_partition import AlterPartitionRequest
from kafkawire.messages.controlled_shutdown import ControlledShutdownRequest
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkawire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from wirebroker.apis.exchange import Exchange
from wirebroker.core.releases.changes import since

LISTS_STALE_PARTITIONS = since("1.1", "the response to LeaderAndIsr with an old epoch has the error for each partition, too")

CONTROLLER_EPOCH, BROKER_EPOCH = 1, 25
"""The epoch of the first controller, and the epoch of the first broker in a new cluster.

A broker's epoch is the id of the ZooKeeper transaction that registers the broker.
"""
NO_EPOCH = -1
TOPIC_IDS_FROM = 5
DELETED, UNCHECKED = -2, -1
"""If a StopReplica has one of these leader epochs, the epoch is not compared with the partition's leader epoch."""


class Named(NamedTuple):
    """A partition in a request."""

    topic: str
    topic_id: bytes
    state: Any


def refuse(request: Any, code: ErrorCode, exchange: Exchange) -> Message:
    """Respond to the request with this error.

    The responses to LeaderAndIsr and StopReplica also have the error in each partition.
    """
    if isinstance(request, LeaderAndIsrRequest):
        return _led(code, [(each, code) for each in _states(request)], exchange)
    if isinstance(request, StopReplicaRequest):
        return _stopped(code, [(topic, index, code) for topic, index, _ in _replicas(request)])
    return exchange.refused(code)


def _stale(request: Any) -> ErrorCode:
    if request.broker_epoch != NO_EPOCH and request.broker_epoch < BROKER_EPOCH:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.STALE_CONTROLLER_EPOCH if request.controller_epoch < CONTROLLER_EPOCH else ErrorCode.NONE


def leader_and_isr(request: LeaderAndIsrRequest, exchange: Exchange) -> Message:
    if code := _stale(request):
        lists = LISTS_STALE_PARTITIONS.of(exchange.cluster.configs.release)
        return refuse(request, code, exchange) if lists else _led(code, [], exchange)
    return _led(ErrorCode.NONE, [(each, _follow_error(each, exchange)) for each in _states(request)], exchange)


def _follow_error(named: Named, exchange: Exchange) -> ErrorCode:
    partition = exchange.cluster.partition(named.topic, named.state.partition_index)
    if named.state.leader_epoch <= (NO_EPOCH if partition is None else partition.leader_epoch):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE if exchange.node_id in named.state.replicas else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _states(request: LeaderAndIsrRequest) -> Iterator[Named]:
    for state in request.ungrouped_partition_states:
        yield Named(state.topic_name, bytes(16), state)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield Named(topic.topic_name, topic.topic_id, state)


def _led(code: ErrorCode, errors: list[tuple[Named, ErrorCode]], exchange: Exchange) -> LeaderAndIsrResponse:
    made = [
        (
            named,
            LeaderAndIsrPartitionError(topic_name=named.topic, partition_index=named.state.partition_index, error_code=error),
        )
        for named, error in errors
    ]
    topics: dict[bytes, list[LeaderAndIsrPartitionError]] = {}
    if exchange.version >= TOPIC_IDS_FROM:
        for named, error in made:
            topics.setdefault(named.topic_id, []).append(error)
    return LeaderAndIsrResponse(
        error_code=code,
        partition_errors=[error for _, error in made],
        topics=[LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=each) for topic_id, each in topics.items()],
    )


def stop_replica(request: StopReplicaRequest, exchange: Exchange) -> Message:
    if code := _stale(request):
        return _stopped(code, [])
    return _stopped(
        code, [(name, index, _stop_error(name, index, epoch, exchange)) for name, index, epoch in _replicas(request)]
    )


def _stop_error(topic: str, index: int, epoch: int, exchange: Exchange) -> ErrorCode:
    partition = exchange.cluster.partition(topic, index)
    old = partition is not None and epoch not in (DELETED, UNCHECKED) and epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if old else ErrorCode.NONE


def _replicas(request: StopReplicaRequest) -> Iterator[tuple[str, int, int]]:
    """For each partition in the request, yields the topic, the index and the leader epoch."""
    for one in request.ungrouped_partitions:
        yield one.topic_name, one.partition_index, UNCHECKED
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield topic.name, index, UNCHECKED
    for states in request.topic_states:
        for state in states.partition_states:
            yield states.topic_name, state.partition_index, state.leader_epoch


def _stopped(code: ErrorCode, errors: list[tuple[str, int, ErrorCode]]) -> StopReplicaResponse:
    made = [
        StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=error) for name, index, error in errors
    ]
    return StopReplicaResponse(error_code=code, partition_errors=made)


def update_metadata(request: UpdateMetadataRequest, exchange: Exchange) -> Message:
    return refuse(request, _stale(request), exchange)


def controlled_shutdown(request: ControlledShutdownRequest, exchange: Exchange) -> Message:
    """If the named broker does not run, ControlledShutdown gets BROKER_NOT_AVAILABLE. If the request also has a broker epoch,
    Kafka's controller fails, and the error is UNKNOWN_SERVER_ERROR."""
    code, named = ErrorCode.NONE, request.broker_epoch != NO_EPOCH
    if request.broker_id not in exchange.cluster.live_brokers:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if named else ErrorCode.BROKER_NOT_AVAILABLE
    elif named and request.broker_epoch < BROKER_EPOCH:
        code = ErrorCode.STALE_BROKER_EPOCH
    return refuse(request, code, exchange)


def alter_partition(request: AlterPartitionRequest, exchange: Exchange) -> Message:
    """Refuses the request: a client cannot know the broker's epoch, so the epoch in the request is wrong."""
    return refuse(request, ErrorCode.STALE_BROKER_EPOCH, exchange)


def allocate_producer_ids(request: AllocateProducerIdsRequest, exchange: Exchange) -> Message:
    runs = request.broker_id in exchange.cluster.live_brokers
    return refuse(request, ErrorCode.STALE_BROKER_EPOCH if runs else ErrorCode.BROKER_ID_NOT_REGISTERED, exchange)
