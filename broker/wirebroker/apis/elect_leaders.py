"""ElectLeaders, versions 0–2.

Election type 0 elects the preferred leader, which is the first replica. Election type 1 elects any live replica of a partition
without a leader, and may lose records. Null instead of partitions means all partitions. The response then has only the
partitions that needed an election.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import ErrorCode
from kafkawire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import MetadataChanges
from wirebroker.apis.overdue import timed_out
from wirebroker.core.config_resources import unwritten

PREFERRED, UNCLEAN = 0, 1
MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def handle(request: ElectLeadersRequest, exchange: Exchange) -> Steps:
    if request.timeout_ms <= 0 and request.topic_partitions != []:
        return (yield from timed_out(request, exchange))
    everything = request.topic_partitions is None
    code = ErrorCode.NONE if request.election_type in (PREFERRED, UNCLEAN) else ErrorCode.INVALID_REQUEST
    changes = MetadataChanges(exchange, [])
    results = []
    for topic, indexes in () if code and everything else _requested(request, exchange):
        shown: list[PartitionResult] = []
        results.append(ReplicaElectionResult(topic=topic, partition_result=shown))
        for index in indexes:
            yield from changes.pause()
            elected = _refused(index, request) if code else _elect(topic, index, request, exchange)
            if not everything or elected.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                shown.append(elected)
    changes.write_down()
    if changes.failed is not None:
        code = unwritten(changes.failed).code
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _requested(request: ElectLeadersRequest, exchange: Exchange) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, range(len(topic.partitions))) for topic in exchange.cluster.topics.values()]
    return [(requested.topic, requested.partitions) for requested in request.topic_partitions]


def _elect(topic: str, index: int, request: ElectLeadersRequest, exchange: Exchange) -> PartitionResult:
    unclean = request.election_type == UNCLEAN
    code = exchange.engine.controller.elect_leader(topic, index, exchange.now, unclean=unclean)
    message = MESSAGES.get(code)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        known = topic in exchange.cluster.topics
        message = f"No such partition as {topic}-{index}" if known else f"No such topic as {topic}"
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _refused(index: int, request: ElectLeadersRequest) -> PartitionResult:
    message = f"Unknown election type {request.election_type}"
    return PartitionResult(partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message)
