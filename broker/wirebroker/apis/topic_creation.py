"""CreateTopics, versions 2–7.

Each topic is checked separately: its name, its settings, then the placement of its partitions. −1 as the number of partitions
or replicas means the broker's default. If the request assigns the partitions to brokers, both numbers must be −1. A topic named
twice in the request gets INVALID_REQUEST. From version 5 on, the response has the topic's settings. From version 7 on, it also
has the topic's id. With validate_only nothing is created.

CreatePartitions, versions 0–3.

`count` is the new number of partitions, which must be larger than the present number. The request may name the brokers of the
new partitions. With validate_only nothing is created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from kafkawire.disk.names import METADATA_TOPIC
from kafkawire.errors import ErrorCode
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.primitives import new_uuid
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import CHANGES, NAMES_TOPICS_ONCE, MetadataChanges
from wirebroker.apis.new_topics import Plan, exists, planned
from wirebroker.apis.overdue import is_late, timed_out
from wirebroker.common.slices import at_once, mapped, pauses
from wirebroker.core.cluster import GROWN, INTERNAL_TOPICS, Cluster
from wirebroker.core.config_resources import TELLS_SERVER_ERRORS, unwritten
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.names import ends_zookeeper_path
from wirebroker.core.placement import all_down, assignment_error, factor_error
from wirebroker.core.refusals import DONE, MOST_RECORDS, TOO_LARGE, Refusal
from wirebroker.core.releases.changes import since

COUNTS_WANTED_PARTITIONS = since(
    "3.9", "CreateTopics refuses more than 10,000 partitions before it checks the topics", "KAFKA-17870"
)
MAKES_IDS_EARLY = since("3.3", "the response to a CreateTopics that only validates has a topic id", "KIP-833")

STRICT_SINCE = 6
"""From this version of CreateTopics on, a topic is refused if too many partitions were created recently (KIP-599)."""
CREATED = 8
"""The number of topics created in a slice."""
TOO_MANY = Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
"""The refusal of a request for more than MOST_RECORDS partitions."""
NAMED_TWICE = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
TIMED_OUT = Refusal(ErrorCode.REQUEST_TIMED_OUT, None)
"""A broker with ZooKeeper returns this result if a new topic still has no leaders when the timeout is over."""

LIMITS_NEW_PARTITIONS = since("4.4", "CreatePartitions adds at most 10,000 partitions")

STRICT_PARTITIONS_SINCE = 3
"""From this version of CreatePartitions on, a topic is refused if too many partitions were created recently (KIP-599)."""


def create_topics(request: CreateTopicsRequest, exchange: Exchange) -> Steps:
    cluster = exchange.cluster
    zookeeper = cluster.configs.release.has_zookeeper
    if is_late(request, exchange):
        return (yield from timed_out(request, exchange))
    names = Counter(topic.name for topic in request.topics)
    single = [topic for topic in request.topics if names[topic.name] == 1 and topic.name != METADATA_TOPIC]
    if _wants_too_many(single, cluster):
        return CreateTopicsResponse(topics=[_refused(topic.name, TOO_MANY) for topic in request.topics])
    plans = yield from mapped(lambda topic: planned(topic, cluster, request.validate_only), single, pauses(CHANGES))
    good = [plan for plan in plans if isinstance(plan, Plan)]
    if not zookeeper and sum(1 + len(plan.overrides) + plan.partitions for plan in good) > MOST_RECORDS:
        return CreateTopicsResponse(topics=[_refused(topic.name, TOO_LARGE) for topic in request.topics])
    responses: list[CreatableTopicResult] = []
    changes = MetadataChanges(exchange, responses, lambda each, refusal: _refused(each.name, refusal), CREATED)
    quota = exchange.engine.throttle.mutations(exchange, STRICT_SINCE, validates=request.validate_only)
    for name, plan in zip([topic.name for topic in single], plans, strict=True):
        yield from changes.pause()
        if isinstance(plan, Plan) and plan.partitions > GROWN:
            changes.write_down()
        while name in cluster.growing:
            yield None
        if isinstance(plan, Refusal):
            responses.append(_refused(name, plan))
        elif name in cluster.topics:  # another request has created the topic in the meantime
            responses.append(_refused(name, exists(name)))
        elif not quota.take(plan.partitions, exchange.engine.now):
            responses.append(_refused(name, Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)))
        else:
            responses.append((yield from _create(name, plan, exchange, request.validate_only)))
    changes.write_down()
    exchange.throttled_by(quota)
    return CreateTopicsResponse(topics=[*_in_time(responses, request, zookeeper), *_without_plans(names, cluster)])


def _in_time(
    responses: list[CreatableTopicResult], request: CreateTopicsRequest, zookeeper: bool
) -> list[CreatableTopicResult]:
    """Returns the results. A broker with ZooKeeper creates the topics even if the request is overdue, but responds
    REQUEST_TIMED_OUT."""
    if not zookeeper or request.timeout_ms > 0 or request.validate_only:
        return responses
    return [each if each.error_code else _refused(str(each.name), TIMED_OUT) for each in responses]


def _wants_too_many(topics: Iterable[CreatableTopic], cluster: Cluster) -> bool:
    """Tells whether Kafka's controller refuses the whole request, before any check of a topic, because of too many
    partitions."""
    usual, wanted = cluster.configs.integer("num.partitions"), 0
    for topic in topics:
        count = len(topic.assignments) or topic.num_partitions
        wanted += usual if count == -1 else max(count, 0)
    return wanted > MOST_RECORDS and COUNTS_WANTED_PARTITIONS.of(cluster.configs.release)


def _without_plans(names: Counter[str], cluster: Cluster) -> Iterator[CreatableTopicResult]:
    """Yields the refusals of topics that are named twice, and of the metadata topic."""
    once = NAMES_TOPICS_ONCE.of(cluster.configs.release)
    for name, times in names.items():
        if times > 1:
            refused = _refused(name, NAMED_TWICE)
            yield from [refused] * (1 if once else times)
        elif name == METADATA_TOPIC:
            message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            yield _refused(name, Refusal(ErrorCode.INVALID_REQUEST, message))


def _create(name: str, plan: Plan, exchange: Exchange, validate_only: bool) -> Generator[None, Any, CreatableTopicResult]:
    cluster = exchange.cluster
    response = CreatableTopicResult(
        name=name,
        topic_id=new_uuid(cluster.random_bytes) if MAKES_IDS_EARLY.of(cluster.configs.release) else bytes(16),
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=plan.partitions,
        replication_factor=plan.factor,
        configs=_configs(plan, exchange),
    )
    if not validate_only and cluster.configs.release.has_zookeeper and not _leaders(plan, cluster):
        cluster.stillborn[name] = plan.partitions
        return _refused(name, TIMED_OUT)
    if not validate_only:
        making = cluster.creating_topic(name, exchange.now, *plan)
        try:
            topic = at_once(making) if name in INTERNAL_TOPICS else (yield from making)
        except OSError as failed:
            return _refused(name, unwritten(failed))
        response.topic_id = topic.topic_id
        if _leaders(plan, cluster) < plan.partitions:
            return _refused(name, TIMED_OUT)
    return response


def _leaders(plan: Plan, cluster: Cluster) -> int:
    """Returns the number of planned partitions that some broker can lead."""
    assigned = sum(any(map(cluster.alive, replicas)) for replicas in plan.assignment.values())
    return assigned if plan.assignment else plan.partitions


def _configs(plan: Plan, exchange: Exchange) -> list[CreatableTopicConfigs]:
    """Returns the topic's settings by name; settings that the client gave are repeated verbatim."""
    topic = TopicConfigs(exchange.cluster.configs, plan.overrides)
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=plan.overrides.get(entry.name, entry.value),
            config_source=entry.source,
        )
        for entry in topic.describe_created(exchange.node_id)
    ]


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.code, error_message=refusal.message)


def create_partitions(request: CreatePartitionsRequest, exchange: Exchange) -> Steps:
    zookeeper = exchange.cluster.configs.release.has_zookeeper
    if is_late(request, exchange):
        return (yield from timed_out(request, exchange))
    if _adds_too_many(request, exchange.cluster):
        return _all_refused(
            request, ErrorCode.POLICY_VIOLATION, "Excessively large number of additional partitions per request."
        )
    names = Counter(topic.name for topic in request.topics)
    results = [_result(name, NAMED_TWICE) for name, times in names.items() if times > 1]
    changes = MetadataChanges(exchange, results)
    quota = exchange.engine.throttle.mutations(exchange, STRICT_PARTITIONS_SINCE, validates=request.validate_only)
    records = 0
    for topic in [topic for topic in request.topics if names[topic.name] == 1]:
        yield from changes.pause()
        while topic.name in exchange.cluster.growing:
            yield None
        if zookeeper and not ends_zookeeper_path(topic.name):  # Kafka fails here; the earlier topics keep their new partitions
            changes.write_down()
            tells = TELLS_SERVER_ERRORS.of(exchange.cluster.configs.release)
            path = f'Invalid path string "/brokers/topics/{topic.name}"'
            return _all_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, path if tells else None)
        refusal = _refusal(topic, exchange.cluster)
        if refusal is None:
            more = topic.count - len(exchange.cluster.topics[topic.name].partitions)
            records += more
            if not quota.take(more, exchange.engine.now):
                refusal = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
            elif records > MOST_RECORDS:
                refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if refusal is None and not request.validate_only:
            changes.write_down()
            refusal = yield from _add_partitions(topic, exchange)
        results.append(_result(topic.name, refusal or _overdue(request)))
    changes.write_down()
    exchange.throttled_by(quota)
    return CreatePartitionsResponse(results=results)


def _overdue(request: CreatePartitionsRequest) -> Refusal | None:
    """Returns REQUEST_TIMED_OUT if the timeout leaves a broker with ZooKeeper no time to wait for the leaders, else None."""
    return TIMED_OUT if request.timeout_ms <= 0 and not request.validate_only else None


def _all_refused(request: CreatePartitionsRequest, code: ErrorCode, message: str | None) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_result(topic.name, Refusal(code, message)) for topic in request.topics])


def _adds_too_many(request: CreatePartitionsRequest, cluster: Cluster) -> bool:
    """Tells whether the request asks for too many additional partitions. Kafka before 4.4 does not check this number, and fails
    later.
    """
    known = cluster.topics
    more = (topic.count - len(known[topic.name].partitions) for topic in request.topics if topic.name in known)
    return LIMITS_NEW_PARTITIONS.of(cluster.configs.release) and sum(max(each, 0) for each in more) > MOST_RECORDS


def _refusal(requested: CreatePartitionsTopic, cluster: Cluster) -> Refusal | None:
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


def _add_partitions(requested: CreatePartitionsTopic, exchange: Exchange) -> Generator[None, Any, Refusal | None]:
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
