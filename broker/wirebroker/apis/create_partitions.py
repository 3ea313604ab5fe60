"""CreatePartitions, versions 0–3.

`count` is the new number of partitions, which must be larger than the present number. The request may name the brokers of the
new partitions. With validate_only nothing is created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import MetadataChanges
from wirebroker.apis.overdue import is_late, timed_out
from wirebroker.core.cluster import Cluster
from wirebroker.core.config_resources import TELLS_SERVER_ERRORS, unwritten
from wirebroker.core.names import ends_zookeeper_path
from wirebroker.core.placement import all_down, assignment_error, factor_error
from wirebroker.core.refusals import DONE, MOST_RECORDS, Refusal
from wirebroker.core.releases.changes import since

LIMITS_NEW_PARTITIONS = since("4.4", "CreatePartitions adds at most 10,000 partitions")

STRICT_SINCE = 3
"""From this version of CreatePartitions on, a topic is refused if too many partitions were created recently (KIP-599)."""


def handle(request: CreatePartitionsRequest, exchange: Exchange) -> Steps:
    zookeeper = exchange.cluster.configs.release.has_zookeeper
    if is_late(request, exchange):
        return (yield from timed_out(request, exchange))
    if _too_many(request, exchange.cluster):
        return _all(request, ErrorCode.POLICY_VIOLATION, "Excessively large number of additional partitions per request.")
    names = Counter(topic.name for topic in request.topics)
    twice = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = [_result(name, twice) for name, times in names.items() if times > 1]
    changes = MetadataChanges(exchange, results)
    quota = exchange.engine.throttle.mutations(exchange, STRICT_SINCE, validates=request.validate_only)
    records = 0
    for topic in [topic for topic in request.topics if names[topic.name] == 1]:
        yield from changes.pause()
        while topic.name in exchange.cluster.growing:
            yield None
        if zookeeper and not ends_zookeeper_path(topic.name):  # Kafka fails here; the earlier topics keep their new partitions
            changes.write_down()
            tells = TELLS_SERVER_ERRORS.of(exchange.cluster.configs.release)
            path = f'Invalid path string "/brokers/topics/{topic.name}"'
            return _all(request, ErrorCode.UNKNOWN_SERVER_ERROR, path if tells else None)
        refusal = _error(topic, exchange.cluster)
        if refusal is None:
            more = topic.count - len(exchange.cluster.topics[topic.name].partitions)
            records += more
            if not quota.take(more, exchange.engine.now):
                refusal = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
            elif records > MOST_RECORDS:
                refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if refusal is None and not request.validate_only:
            changes.write_down()
            refusal = yield from _add(topic, exchange)
        results.append(_result(topic.name, refusal or _overdue(request)))
    changes.write_down()
    exchange.throttled_by(quota)
    return CreatePartitionsResponse(results=results)


def _overdue(request: CreatePartitionsRequest) -> Refusal | None:
    """Returns REQUEST_TIMED_OUT if the timeout leaves a broker with ZooKeeper no time to wait for the leaders, else None."""
    late = request.timeout_ms <= 0 and not request.validate_only
    return Refusal(ErrorCode.REQUEST_TIMED_OUT, None) if late else None


def _all(request: CreatePartitionsRequest, code: ErrorCode, message: str | None) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_result(topic.name, Refusal(code, message)) for topic in request.topics])


def _too_many(request: CreatePartitionsRequest, cluster: Cluster) -> bool:
    """Tells whether the request asks for too many additional partitions. Kafka before 4.4 does not check this number, and fails
    later.
    """
    known = cluster.topics
    more = (topic.count - len(known[topic.name].partitions) for topic in request.topics if topic.name in known)
    return LIMITS_NEW_PARTITIONS.of(cluster.configs.release) and sum(max(each, 0) for each in more) > MOST_RECORDS


def _error(requested: CreatePartitionsTopic, cluster: Cluster) -> Refusal | None:
    topic = cluster.topics.get(requested.name)
    count = len(topic.partitions) if topic else cluster.stillborn.get(requested.name, 0)
    if count and requested.count == count:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if count and requested.count < count:
        message = f"The topic {requested.name} currently has {count} partition(s); {requested.count} would not be an increase."
        return Refusal(ErrorCode.INVALID_PARTITIONS, message)
    if topic is None:
        unknown = f"The topic '{requested.name}' does not exist." if cluster.configs.release.has_zookeeper else None
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    factor = len(topic.partitions[0].replicas)
    if requested.assignments is None:
        return factor_error(factor, cluster)
    if len(requested.assignments) != requested.count - count:
        message = (
            f"Attempted to add {requested.count - count} additional partition(s), but only {len(requested.assignments)} "
            "assignment(s) were specified."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for index, each in enumerate(requested.assignments, count):
        error = assignment_error(each.broker_ids, factor, cluster) or all_down(each.broker_ids, index, cluster)
        if error is not None:
            return error
    return None


def _add(requested: CreatePartitionsTopic, exchange: Exchange) -> Generator[None, Any, Refusal | None]:
    topic = exchange.cluster.topics[requested.name]
    factor = len(topic.partitions[0].replicas)
    first = len(topic.partitions)
    assignment = {first + i: each.broker_ids for i, each in enumerate(requested.assignments or [])}
    try:
        yield from exchange.cluster.adding_partitions(topic, requested.count, exchange.now, factor, assignment)
    except OSError as failed:
        return unwritten(failed)
    return None


def _result(name: str, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    code, message = refusal or DONE
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
