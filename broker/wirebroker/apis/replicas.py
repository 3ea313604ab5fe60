"""AlterPartitionReassignments, versions 0–1.

A reassignment is in progress until the new replicas are in sync (KIP-455). In wirebroker the replicas of running brokers have
all records at once, so the reassignment waits only for stopped brokers. A request with null replicas cancels a reassignment.
From version 1 on, a request can forbid changes of the number of replicas.

ListPartitionReassignments, version 0.

ListPartitionReassignments returns the reassignments in progress of the requested partitions; null means all partitions. As in
Kafka, unknown topics and partitions are not an error, and a topic without reassignments is not in the response.

ElectLeaders, versions 0–2.

Election type 0 elects the preferred leader, which is the first replica. Election type 1 elects any live replica of a partition
without a leader, and may lose records. Null instead of partitions means all partitions. The response then has only the
partitions that needed an election.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkawire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafkawire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import MetadataChanges
from wirebroker.apis.overdue import timed_out
from wirebroker.common.slices import pauses
from wirebroker.core.config_resources import unwritten
from wirebroker.core.partition import Partition
from wirebroker.core.placement import assignment_error
from wirebroker.core.refusals import DONE, Refusal

PREFERRED, UNCLEAN = 0, 1
ELECTION_MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def alter_partition_reassignments(request: AlterPartitionReassignmentsRequest, exchange: Exchange) -> Steps:
    if not request.topics:
        return AlterPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message="", responses=[])
    if request.timeout_ms <= 0:
        return (yield from timed_out(request, exchange))
    any_number = request.allow_replication_factor_change
    changes = MetadataChanges(exchange, [])
    responses = []
    for topic in request.topics:
        partitions = []
        for requested in topic.partitions:
            yield from changes.pause()
            code, message = _reassign(topic.name, requested, exchange, any_number) or DONE
            partitions.append(
                ReassignablePartitionResponse(partition_index=requested.partition_index, error_code=code, error_message=message)
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield from changes.pause()
    changes.write_down()
    code, message = DONE if changes.failed is None else unwritten(changes.failed)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=any_number, error_code=code, error_message=message, responses=responses
    )


def _reassign(topic: str, requested: ReassignablePartition, exchange: Exchange, any_number: bool) -> Refusal | None:
    cluster = exchange.cluster
    if topic not in cluster.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    partition = cluster.partition(topic, requested.partition_index)
    if partition is None:
        message = f"Unable to find partition {topic}:{requested.partition_index}."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if requested.replicas is None:
        return _cancel(partition, exchange)
    error = assignment_error(requested.replicas, None, cluster)
    if error is not None:
        return error
    have, wanted = len(partition.replicas) - len(partition.removing), len(requested.replicas)
    if wanted != have and not any_number:
        message = f"The replication factor is changed from {have} to {wanted}"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    exchange.engine.controller.reassign(partition, requested.replicas, exchange.now)
    return None


def _cancel(partition: Partition, exchange: Exchange) -> Refusal | None:
    if not partition.moves:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    if exchange.engine.controller.cancel_reassignment(partition, exchange.now):
        return None
    where = f"{partition.topic}:{partition.index}"
    message = f"Unable to revert partition assignment for {where} because it would require an unclean leader election."
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def list_partition_reassignments(request: ListPartitionReassignmentsRequest, exchange: Exchange) -> Steps:
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


def elect_leaders(request: ElectLeadersRequest, exchange: Exchange) -> Steps:
    if request.timeout_ms <= 0 and request.topic_partitions != []:
        return (yield from timed_out(request, exchange))
    everything = request.topic_partitions is None
    code = ErrorCode.NONE if request.election_type in (PREFERRED, UNCLEAN) else ErrorCode.INVALID_REQUEST
    changes = MetadataChanges(exchange, [])
    results = []
    for topic, indexes in () if code and everything else _named(request, exchange):
        shown: list[PartitionResult] = []
        results.append(ReplicaElectionResult(topic=topic, partition_result=shown))
        for index in indexes:
            yield from changes.pause()
            elected = _unelected(index, request) if code else _elect(topic, index, request, exchange)
            if not everything or elected.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                shown.append(elected)
    changes.write_down()
    if changes.failed is not None:
        code = unwritten(changes.failed).code
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _named(request: ElectLeadersRequest, exchange: Exchange) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, range(len(topic.partitions))) for topic in exchange.cluster.topics.values()]
    return [(requested.topic, requested.partitions) for requested in request.topic_partitions]


def _elect(topic: str, index: int, request: ElectLeadersRequest, exchange: Exchange) -> PartitionResult:
    unclean = request.election_type == UNCLEAN
    code = exchange.engine.controller.elect_leader(topic, index, exchange.now, unclean=unclean)
    message = ELECTION_MESSAGES.get(code)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        known = topic in exchange.cluster.topics
        message = f"No such partition as {topic}-{index}" if known else f"No such topic as {topic}"
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _unelected(index: int, request: ElectLeadersRequest) -> PartitionResult:
    message = f"Unknown election type {request.election_type}"
    return PartitionResult(partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message)
