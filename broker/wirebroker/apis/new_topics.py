"""The checks of CreateTopics, in the order in which the release makes them.

With KRaft the controller checks a topic (ReplicationControlManager): its name, its settings, then the placement of its
partitions. With ZooKeeper the active broker checks the topic (ZkAdminManager). The active broker checks the name only after the
numbers of partitions and replicas, and does not check that the brokers of an assignment exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_topics import CreatableTopic
from wirebroker.core.cluster import Cluster
from wirebroker.core.configs import ConfigError, check_topic_configs
from wirebroker.core.names import topic_name_error
from wirebroker.core.placement import all_down, assignment_error, factor_error
from wirebroker.core.refusals import MOST_RECORDS, Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since, until

FINDS_WRONG_SETTINGS = since("2.0", "a setting whose value cannot be parsed gets error 40 instead of −1")
COUNTS_BEFORE_SETTINGS = since(
    "2.7", "CreateTopics checks the numbers of partitions and replicas before it checks the settings, until KRaft"
).then("3.3", False, "CreateTopics checks the settings before it checks the numbers of partitions and replicas", "KIP-833")
EXPECTS_NULL_SETTINGS = since("2.6", "CreateTopics refuses a setting without a value with error 42")
DEFAULT_COUNTS = since("2.4", "CreateTopics takes −1 for the default number of partitions and replicas", "KIP-464")
FINDS_TOPICS_AT_ONCE = since("2.3", "CreateTopics checks first whether the topic's name is free")
FORGETS_REFUSED_SETTINGS = until(
    "3.3", "if CreateTopics refuses a topic, its settings may be kept for the next topic with this name", "KIP-833"
).then(
    "3.4", True, "if CreateTopics refuses an assignment, the topic's settings are not kept for the next topic with this name"
)

Check = Callable[[CreatableTopic, Cluster], Refusal | None]


class Plan(NamedTuple):
    """A topic to create; `assignment` is empty if the broker places the replicas."""

    partitions: int
    factor: int
    assignment: dict[int, list[int]]
    overrides: dict[str, str]


def planned(topic: CreatableTopic, cluster: Cluster, validate_only: bool) -> Plan | Refusal:
    """Returns the plan of a topic, or the refusal by the first check that fails."""
    for check in _checks(cluster.configs.release):
        refusal = check(topic, cluster)
        if refusal is not None:
            if check is _placed and not validate_only:
                _keep_settings(topic, cluster)
            return refusal
    overrides = _overrides(topic)
    if topic.assignments:
        assignment = {each.partition_index: each.broker_ids for each in topic.assignments}
        return Plan(len(assignment), len(next(iter(assignment.values()))), assignment, overrides)
    return Plan(*_counts(topic, cluster), {}, overrides)


def _keep_settings(topic: CreatableTopic, cluster: Cluster) -> None:
    """Keep the settings of a refused topic for the next topic with the same name, as some releases do. Kafka 3.3 keeps these
    settings, because it writes down a topic's settings before it checks the placement of the topic's partitions."""
    kept = cluster.refused_settings
    if _overrides(topic) and not FORGETS_REFUSED_SETTINGS.of(cluster.configs.release) and len(kept) < MOST_RECORDS:
        kept.setdefault(topic.name, {}).update(_overrides(topic))


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    """Returns the settings that the request gives to the topic."""
    return {config.name: config.value for config in topic.configs if config.value is not None}


def exists(name: str) -> Refusal:
    """Returns the refusal of a topic whose name is taken."""
    return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _checks(release: Release) -> Iterator[Check]:
    if not release.has_zookeeper:
        yield from (_unused, _distinct, _named, _no_nulls, _settings, _placed)
        return
    late = COUNTS_BEFORE_SETTINGS.of(release)
    if not FINDS_TOPICS_AT_ONCE.of(release):
        yield from (_no_nulls, _settings, _counted_or_assigned, _named, _unused, _distinct, _assigned_anywhere)
        return
    yield from (_unused, _no_nulls)
    yield from () if late else (_settings,)
    yield from (_counted_or_assigned, _named, _distinct, _assigned_anywhere)
    yield from (_settings,) if late else ()


def _unused(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    return exists(topic.name) if topic.name in cluster.topics or cluster.takes_name(topic.name) else None


def _distinct(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    """Refuse a name that differs only in '.' and '_' from another topic's name. Kafka's metric names have '_' for '.', so both
    topics would share metrics."""
    if "." in topic.name or "_" in topic.name:
        for other in cluster.topics_like(topic.name):
            message = f"Topic '{topic.name}' collides with existing topic: {other}"
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    return None


def _named(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    error = topic_name_error(topic.name)
    return None if error is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)


def _no_nulls(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    nulls = [config.name for config in topic.configs if config.value is None]
    if not nulls:
        return None
    message = f"Null value not supported for topic configs: {','.join(nulls)}"
    if not cluster.configs.release.has_zookeeper:
        return Refusal(ErrorCode.INVALID_CONFIG, message)
    if not EXPECTS_NULL_SETTINGS.of(cluster.configs.release):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _settings(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        check_topic_configs(overrides, cluster.configs)
    except ConfigError as error:
        known = all(map(cluster.configs.definitions.has_topic_setting, overrides))
        foreseen = FINDS_WRONG_SETTINGS.of(cluster.configs.release) or not known
        return Refusal(ErrorCode.INVALID_CONFIG if foreseen else ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return None


def _placed(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    return _assigned(topic, cluster) if topic.assignments else _counted(topic, cluster)


def _counted_or_assigned(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    if not topic.assignments:
        return _counted(topic, cluster)
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        message = "numPartitions or replicationFactor were set, and so were replicasAssignments."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    return None


def _assigned(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != -1:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    indexes: set[int] = set()
    factor: int | None = None
    for each in topic.assignments:
        if each.partition_index in indexes:
            message = f"Found multiple manual partition assignments for partition {each.partition_index}"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        error = assignment_error(each.broker_ids, factor, cluster) or all_down(each.broker_ids, each.partition_index, cluster)
        if error is not None:
            return error
        factor = len(each.broker_ids)
        indexes.add(each.partition_index)
    return _consecutive(indexes)


def _assigned_anywhere(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    """Checks an assignment as Kafka did before KRaft. If the request assigns a partition twice, the last assignment counts."""
    assignment = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len({len(replicas) for replicas in assignment.values()}) > 1:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas")
    if any(len(set(replicas)) < len(replicas) for replicas in assignment.values()):
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica assignment found")
    return _consecutive(set(assignment))


def _consecutive(indexes: set[int]) -> Refusal | None:
    if indexes == set(range(len(indexes))):
        return None
    message = "partitions should be a consecutive 0-based integer sequence"
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _counted(topic: CreatableTopic, cluster: Cluster) -> Refusal | None:
    factors = Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
    )
    partitions = Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    wrong = [
        refusal
        for refusal, count in ((factors, topic.replication_factor), (partitions, topic.num_partitions))
        if count == 0 or count < (-1 if DEFAULT_COUNTS.of(cluster.configs.release) else 0)
    ]
    if wrong:  # an active broker with ZooKeeper checks the number of partitions first
        return wrong[-1] if cluster.configs.release.has_zookeeper else wrong[0]
    _, factor = _counts(topic, cluster)
    error = factor_error(factor, cluster)
    return error and Refusal(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}")


def _counts(topic: CreatableTopic, cluster: Cluster) -> tuple[int, int]:
    """Returns the number of partitions and of replicas; −1 stands for the broker's defaults."""
    configs, partitions, factor = cluster.configs, topic.num_partitions, topic.replication_factor
    return (
        configs.integer("num.partitions") if partitions == -1 else partitions,
        configs.integer("default.replication.factor") if factor == -1 else factor,
    )
