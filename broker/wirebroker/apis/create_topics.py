"""CreateTopics, versions 2–7.

Each topic is checked by itself: its name, its settings, then the placement of its partitions. −1 partitions or replicas mean
the broker's default; both numbers must be −1 if the request assigns the partitions to brokers itself. A topic named twice in
the request gets INVALID_REQUEST. From version 5 the response has the topic's settings, from 7 its id. With validate_only
nothing is created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import CHANGES, MetadataChanges
from wirebroker.apis.overdue import timed_out
from wirebroker.common.slices import at_once, pauses
from wirebroker.core.cluster import GROWN, INTERNAL_TOPICS, Cluster
from wirebroker.core.config_resources import unwritten
from wirebroker.core.configs import ConfigError, TopicConfigs, check_topic_configs
from wirebroker.core.names import topic_name_error
from wirebroker.core.placement import all_down, assignment_error, factor_error
from wirebroker.core.refusals import MOST_RECORDS, TOO_LARGE, Refusal

METADATA_TOPIC = "__cluster_metadata"
STRICT_SINCE = 6
"""From this version of CreateTopics on, a topic is refused if too many partitions were created recently (KIP-599)."""
CREATED = 8
"""The number of topics created in a slice."""


class Plan(NamedTuple):
    """A topic to create; `assignment` is empty if the broker places the replicas."""

    partitions: int
    factor: int
    assignment: dict[int, list[int]]
    overrides: dict[str, str]


def handle(request: CreateTopicsRequest, exchange: Exchange) -> Steps:
    """Create the valid topics. Returns the result of each topic."""
    if request.timeout_ms <= 0:
        return (yield from timed_out(request, exchange, CreateTopicsResponse))
    cluster = exchange.cluster
    names = Counter(topic.name for topic in request.topics)
    single = [topic for topic in request.topics if names[topic.name] == 1 and topic.name != METADATA_TOPIC]
    pause, pause_for_creation = pauses(CHANGES), pauses(CREATED)
    plans = []
    for topic in single:
        if pause():
            yield None
        plans.append((topic.name, _plan(topic, cluster)))
    good = [plan for _, plan in plans if isinstance(plan, Plan)]
    if sum(1 + len(plan.overrides) + plan.partitions for plan in good) > MOST_RECORDS:
        return CreateTopicsResponse(topics=[_refused(topic.name, TOO_LARGE) for topic in request.topics])
    responses: list[CreatableTopicResult] = []
    changes = MetadataChanges(responses, exchange)
    quota = exchange.engine.throttle.mutations(exchange, STRICT_SINCE, validates=request.validate_only)
    for name, plan in plans:
        if pause_for_creation():
            changes.write_down(_as_refused)
            yield None
        if isinstance(plan, Plan) and plan.partitions > GROWN:
            changes.write_down(_as_refused)
        while name in cluster.growing:
            yield None
        if isinstance(plan, Refusal):
            responses.append(_refused(name, plan))
        elif name in cluster.topics:  # another request has created the topic in the meantime
            responses.append(_refused(name, _exists(name)))
        elif not quota.take(plan.partitions, exchange.engine.now):
            responses.append(_refused(name, Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)))
        else:
            responses.append((yield from _create(name, plan, exchange, request.validate_only)))
    changes.write_down(_as_refused)
    exchange.throttled_by(quota)
    return CreateTopicsResponse(topics=[*responses, *_without_plans(names)])


def _without_plans(names: Counter[str]) -> Iterator[CreatableTopicResult]:
    """Yields the refusals of topics that are named twice, and of the metadata topic."""
    for name, times in names.items():
        if times > 1:
            yield _refused(name, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif name == METADATA_TOPIC:
            message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            yield _refused(name, Refusal(ErrorCode.INVALID_REQUEST, message))


def _plan(topic: CreatableTopic, cluster: Cluster) -> Plan | Refusal:
    error = _name_error(topic.name, cluster)
    if error is not None:
        return error
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        return Refusal(
            ErrorCode.INVALID_REQUEST if cluster.configs.release.has_zookeeper else ErrorCode.INVALID_CONFIG, message
        )
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        check_topic_configs(overrides, cluster.configs)
    except ConfigError as error:
        known = all(map(cluster.configs.definitions.has_topic_setting, overrides))
        foreseen = cluster.configs.release.behaviour.finds_wrong_settings or not known
        return Refusal(ErrorCode.INVALID_CONFIG if foreseen else ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return _assigned(topic, overrides, cluster) if topic.assignments else _counted(topic, overrides, cluster)


def _name_error(name: str, cluster: Cluster) -> Refusal | None:
    if name in cluster.topics:
        return _exists(name)
    if "." in name or "_" in name:
        # Kafka's metric names have '_' for '.', so two topics that differ only in these characters would share metrics.
        for other in cluster.topics_like(name):
            message = f"Topic '{name}' collides with existing topic: {other}"
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    error = topic_name_error(name)
    return None if error is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)


def _exists(name: str) -> Refusal:
    return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _assigned(topic: CreatableTopic, overrides: dict[str, str], cluster: Cluster) -> Plan | Refusal:
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != -1:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    assignment: dict[int, list[int]] = {}
    factor: int | None = None
    for each in topic.assignments:
        if each.partition_index in assignment:
            message = f"Found multiple manual partition assignments for partition {each.partition_index}"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        error = assignment_error(each.broker_ids, factor, cluster) or all_down(each.broker_ids, each.partition_index, cluster)
        if error is not None:
            return error
        factor = len(each.broker_ids)
        assignment[each.partition_index] = each.broker_ids
    if sorted(assignment) != list(range(len(assignment))):
        message = "partitions should be a consecutive 0-based integer sequence"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return Plan(len(assignment), len(assignment[0]), assignment, overrides)


def _counted(topic: CreatableTopic, overrides: dict[str, str], cluster: Cluster) -> Plan | Refusal:
    configs = cluster.configs
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        return Refusal(ErrorCode.INVALID_PARTITIONS, message)
    partitions = configs.integer("num.partitions") if topic.num_partitions == -1 else topic.num_partitions
    factor = topic.replication_factor
    if factor == -1:
        factor = configs.integer("default.replication.factor")
    if (error := factor_error(factor, cluster)) is not None:
        return Refusal(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}")
    return Plan(partitions, factor, {}, overrides)


def _create(name: str, plan: Plan, exchange: Exchange, validate_only: bool) -> Generator[None, Any, CreatableTopicResult]:
    cluster = exchange.cluster
    response = CreatableTopicResult(
        name=name,
        topic_id=cluster.random_bytes(16),
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=plan.partitions,
        replication_factor=plan.factor,
        configs=_configs(plan, exchange),
    )
    if not validate_only:
        making = cluster.creating_topic(name, exchange.now, *plan)
        try:
            topic = at_once(making) if name in INTERNAL_TOPICS else (yield from making)
        except OSError as failed:
            return _refused(name, unwritten(failed))
        response.topic_id = topic.topic_id
    return response


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


def _as_refused(response: CreatableTopicResult, refusal: Refusal) -> CreatableTopicResult:
    return _refused(response.name, refusal)


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.code, error_message=refusal.message)
