"""ElectLeaders, versions 0–2.

A preferred election (type 0) makes the first replica of a partition its leader again; an unclean one (type 1) is for a
partition without a leader. Where there is nothing to do it is ELECTION_NOT_NEEDED. Null asks for all partitions, and
then those without need are left out of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkawire.errors import ErrorCode
from kafkawire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from wirebroker.core.cluster import Cluster
from wirebroker.core.config_resources import Refusal
from wirebroker.core.placement import lead
from wirebroker.exchange import Exchange

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def handle(request: ElectLeadersRequest, exchange: Exchange) -> ElectLeadersResponse:
    """Hold the elections, and say of each partition what came of it."""
    cluster, kind = exchange.cluster, request.election_type
    if kind not in (PREFERRED, UNCLEAN):
        return _unknown_type(request)
    results = []
    for topic, indexes in _asked(request, cluster):
        outcomes = [(index, _elect(cluster, topic, index, kind)) for index in indexes]
        if request.topic_partitions is None:
            outcomes = [(index, refusal) for index, refusal in outcomes if refusal is not NOT_NEEDED]
        results.append(_result(topic, outcomes))
    return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=results)


def _asked(request: ElectLeadersRequest, cluster: Cluster) -> Iterable[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        return [(name, range(len(topic.partitions))) for name, topic in cluster.topics.items()]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _elect(cluster: Cluster, topic: str, index: int, kind: int) -> Refusal | None:
    if topic not in cluster.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    partition = cluster.partition(topic, index)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    preferred = partition.replicas[0]
    if partition.leader == preferred or (kind == UNCLEAN and partition.leader >= 0):
        return NOT_NEEDED
    if preferred in partition.in_sync:
        lead(partition, preferred, cluster)
        return None
    if kind == PREFERRED:
        return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def _result(topic: str, outcomes: Iterable[tuple[int, Refusal | None]]) -> ReplicaElectionResult:
    told = []
    for index, refusal in outcomes:
        code, message = refusal if refusal is not None else (ErrorCode.NONE, None)
        told.append(PartitionResult(partition_id=index, error_code=code, error_message=message))
    return ReplicaElectionResult(topic=topic, partition_result=told)


def _unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    refusal = Refusal(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    results = [
        _result(topic.topic, [(index, refusal) for index in topic.partitions])
        for topic in request.topic_partitions or []
    ]
    return ElectLeadersResponse(error_code=refusal.code, replica_election_results=results)
