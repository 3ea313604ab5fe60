"""The state that the brokers describe: one value for each fact. A fact's key begins with its family (see `done`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from requesting import plain
from simulation.whole.done import BROKER, GROUP, METRICS, SELDOM, TOPIC, Key, quota_key
from wirebroker.core.producers import unpack

if TYPE_CHECKING:
    from simulation.whole.world import World

OWN_SOURCES = {TOPIC: 1, METRICS: 7, GROUP: 8}
"""For each type of resource: the config source of settings that a request has set. For brokers, see `_is_own`."""
EARLIEST, LATEST = -2, -1
DESCRIBE = {
    "classic": "DescribeGroups", "consumer": "ConsumerGroupDescribe", "share": "ShareGroupDescribe",
    "streams": "StreamsGroupDescribe",
}  # fmt: skip
"""For each type of group: the request that describes such a group."""


def shown(world: World) -> dict[Key, Any]:
    """Returns all facts that the brokers describe."""
    return dict(_facts(world))


def _facts(world: World) -> Iterator[tuple[Key, Any]]:
    names = [topic.name for topic in world.engine.cluster.topics.values()]
    yield from _topics(world)
    yield from _settings(world, names)
    yield from _security(world)
    yield from _groups(world)
    yield from _transactions(world)
    yield from _logs(world)


def _topics(world: World) -> Iterator[tuple[Key, Any]]:
    for topic in world.ask(plain("Metadata", topics=None, allow_auto_topic_creation=False), 12).topics:
        yield ("topic", topic.name), (topic.topic_id, len(topic.partitions))
        for part in topic.partitions:
            yield ("replicas", topic.name, part.partition_index), tuple(part.replica_nodes)
    moves = world.ask(plain("ListPartitionReassignments", timeout_ms=1000, topics=None), 0)
    for topic in moves.topics if moves is not None else ():
        for part in topic.partitions:
            yield ("reassignment", topic.name, part.partition_index), tuple(part.replicas)
    for node in sorted(world.engine.cluster.brokers):
        for directory in world.ask(plain("DescribeLogDirs", topics=None), 1, node).results:
            for topic in directory.topics:
                for part in topic.partitions:
                    yield ("directory", node, topic.name, part.partition_index, part.is_future_key), directory.log_dir
    versions = world.ask(plain("ApiVersions", client_software_name="w", client_software_version="1"), 3)
    yield ("metadata", "offset"), versions.finalized_features_epoch
    for feature in versions.finalized_features:
        yield ("feature", feature.name), feature.max_version_level


BROKER_SETTINGS = ("min.insync.replicas", "num.partitions", "log.cleaner.threads", "log.retention.ms", "message.max.bytes")


def _settings(world: World, names: list[str]) -> Iterator[tuple[Key, Any]]:
    nodes = sorted(world.engine.cluster.brokers)
    resources = [(TOPIC, name) for name in names]
    resources += [(BROKER, "")] if world.setting.seed % SELDOM == 0 else []
    listed = world.ask(plain("ListConfigResources", resource_types=[METRICS, GROUP]), 1)
    listed = listed.config_resources if listed is not None else ()
    others = {(each.resource_type, each.resource_name) for each in listed}
    others |= {(key[1], key[2]) for key in world.done.facts if key[0] == "config" and key[1] in (METRICS, GROUP)}
    resources += sorted(others)
    keys = sorted({key[3] for key in world.done.facts if key[0] == "config"} | {*BROKER_SETTINGS})
    own = [(node, [(BROKER, str(node))]) for node in nodes if world.setting.seed % SELDOM == 0]
    for node, wanted in [(nodes[0], resources), *own]:
        asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name in wanted]
        for result in world.ask(plain("DescribeConfigs", resources=asked), 4, node).results:
            for config in result.configs:
                if _is_own(config.config_source, result):
                    yield ("config", result.resource_type, result.resource_name, config.name), config.value


def _is_own(source: int, resource: Any) -> bool:
    """Tells whether a setting is the resource's own. A broker's own settings have source 2; settings for all brokers have
    source 3."""
    kind = resource.resource_type
    return source == (OWN_SOURCES[kind] if kind != BROKER else 2 if resource.resource_name else 3)


def _security(world: World) -> Iterator[tuple[Key, Any]]:
    every: dict[str, Any] = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    every |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    for resource in world.ask(plain("DescribeAcls", **every), 3).resources:
        for acl in resource.acls:
            what = (resource.resource_type, resource.resource_name, resource.pattern_type)
            yield ("acl", *what, acl.principal, acl.host, acl.operation, acl.permission_type), True
    for entry in world.ask(plain("DescribeClientQuotas", components=[]), 1).entries or ():
        for limit in entry.values:
            yield quota_key(entry.entity, limit.key), limit.value
    users = world.ask(plain("DescribeUserScramCredentials", users=None), 0)
    for user in users.results if users is not None else ():
        for info in user.credential_infos:
            yield ("scram", user.user, info.mechanism), info.iterations
    tokens = world.ask(plain("DescribeDelegationToken", owners=None), 3)
    for token in tokens.tokens if tokens is not None else ():
        yield ("token", bytes(token.hmac)), token.expiry_timestamp


def _groups(world: World) -> Iterator[tuple[Key, Any]]:
    cluster = world.engine.cluster
    for node in sorted(cluster.brokers):
        for group in world.ask(plain("ListGroups"), 5, node).groups:
            yield ("group", group.group_id), group.group_type
            if group.group_type in DESCRIBE:
                yield ("members", group.group_id), _members(world, node, group)
    for group_id in sorted({*world.engine.groups.groups, *world.engine.groups.offsets.groups()}):
        asked = plain("OffsetFetch", groups=[{"group_id": group_id, "topics": None}])
        for topic in world.ask(asked, 8, cluster.coordinator("group", group_id)).groups[0].topics:
            for part in topic.partitions:
                yield ("offset", group_id, topic.name, part.partition_index), (
                    part.committed_offset, part.committed_leader_epoch, part.metadata or "",
                )  # fmt: skip


def _members(world: World, node: int, listed: Any) -> tuple[str, dict[str, Any]]:
    """Returns two values: a group's state, and the descriptions of its members by member id."""
    field = "groups" if listed.group_type == "classic" else "group_ids"
    told = world.ask(plain(DESCRIBE[listed.group_type], **{field: [listed.group_id]}), 9, node)
    return told.groups[0].group_state, {member.member_id: str(member) for member in told.groups[0].members}


def _transactions(world: World) -> Iterator[tuple[Key, Any]]:
    for node in sorted(world.engine.cluster.brokers):
        listed = world.ask(plain("ListTransactions", duration_filter=-1), 1, node)
        names = [each.transactional_id for each in listed.transaction_states] if listed is not None else []
        found = world.ask(plain("DescribeTransactions", transactional_ids=names), 0, node) if names else None
        for each in found.transaction_states if found is not None else ():
            what = (each.transaction_state, sorted((topic.topic, sorted(topic.partitions)) for topic in each.topics))
            told = (each.producer_id, each.producer_epoch, each.transaction_timeout_ms, *what)
            yield ("transaction", each.transactional_id), told


def _logs(world: World) -> Iterator[tuple[Key, Any]]:
    cluster = world.engine.cluster
    expired = world.now - cluster.configs.integer("producer.id.expiration.ms")
    for partition in cluster.partitions():
        where = partition.topic, partition.index
        for producer_id, state in partition.producers.items():
            entry = unpack(state)
            if entry.last_timestamp <= expired and entry.current_txn_first_offset < 0:
                continue  # a truncation restores expired producers; as in Kafka, a start or the timer removes them
            told = (entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset)
            yield ("producer", *where, producer_id), told
        yield ("log", *where), (partition.log_start_offset, partition.last_stable_offset, partition.high_watermark,
                                partition.log_end_offset)  # fmt: skip
