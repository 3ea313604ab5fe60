"""Reads the sections of a learned cluster. Each section is read with requests that an admin client sends."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from kafkawire.errors import ErrorCode, error_name
from kafkawire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.messages.describe_acls import DescribeAclsRequest
from kafkawire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkawire.messages.describe_cluster import DescribeClusterRequest
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from kafkawire.messages.describe_groups import DescribeGroupsRequest
from kafkawire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafkawire.messages.list_groups import ListGroupsRequest
from kafkawire.messages.metadata import MetadataResponseTopic
from kafkawire.messages.share_group_describe import ShareGroupDescribeRequest
from wirebroker.core.acls import Operation, PatternType, Permission, ResourceType
from wirebroker.core.config_resources import ResourceType as ConfigResource
from wirebroker.core.configs import Source
from wirebroker.testing.learned_file import DEFAULT, Acl, Broker, Group, Quota, Settings, Topic, User
from wirebroker_tools.learning.asking import Asked, CannotLearn, NotOffered, Refused, check, pieces

CLUSTER_CONFIGS = "DESCRIBE_CONFIGS on CLUSTER kafka-cluster"
CLUSTER = "DESCRIBE on CLUSTER kafka-cluster"
DOWN = "it is down or does not have this listener, so its rack and settings are not known"
SCRAM = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
OF_ITS_MACHINE = frozenset(
    {
        "advertised.host.name", "advertised.listeners", "advertised.port", "broker.id", "broker.id.generation.enable",
        "broker.rack", "config.providers", "control.plane.listener.name", "controller.listener.names",
        "controller.quorum.bootstrap.servers", "controller.quorum.voters", "cordoned.log.dirs", "early.start.listeners",
        "host.name", "inter.broker.listener.name", "listener.security.protocol.map", "listeners", "log.dir", "log.dirs",
        "metadata.log.dir", "metric.reporters", "node.id", "port", "process.roles", "security.inter.broker.protocol",
        "zookeeper.connect", "zookeeper.metadata.migration.enable", "zookeeper.set.acl",
    }
)  # fmt: skip
"""Settings that describe where a broker runs. Such settings are left out, because they are useless on another machine. Some of
them also name hosts and folders."""
OF_ITS_LISTENERS = ("listener.name.", "ssl.", "sasl.jaas.", "sasl.kerberos.", "sasl.login.", "sasl.server.", "zookeeper.ssl.")
"""Settings with these prefixes are left out, too, because they are about listeners, certificates and logins."""
T = TypeVar("T")


# Settings


def broker_settings(asked: Asked) -> tuple[Settings, Settings, list[Broker]]:
    """Returns three values: the static settings that are the same on all brokers, the dynamic settings of the whole cluster,
    and the brokers.
    """
    static: dict[int, Settings] = {}
    cluster_wide: Settings = {}
    brokers = []
    racks = {each.node_id: each.rack for each in asked.metadata.brokers}
    named = {node for topic in asked.metadata.topics for each in topic.partitions for node in each.replica_nodes if node >= 0}
    for number, node_id in enumerate(sorted(racks.keys() | named)):
        asked.progress("settings of brokers", number, len(racks))
        result = _of_broker(asked, node_id) if node_id in racks else None
        if node_id not in racks:
            asked.note(f"broker {node_id}", DOWN)
        static[node_id] = _with_source(asked, result, Source.STATIC)
        cluster_wide |= _with_source(asked, result, Source.ALL_BROKERS)
        altered = _with_source(asked, result, Source.BROKER)
        brokers.append(Broker(node_id=node_id, rack=racks.get(node_id), altered=altered))
    read = [held for held in static.values() if held]
    common = {name: value for name, value in (read or [{}])[0].items() if all(held.get(name) == value for held in read)}
    for broker in brokers:
        own = static[broker.node_id]
        broker.settings = {name: value for name, value in own.items() if name not in common}
    return common, cluster_wide, brokers


def _of_broker(asked: Asked, node_id: int) -> DescribeConfigsResult | None:
    """Asks a broker for its own settings, because no other broker has all of them."""
    resource = DescribeConfigsResource(resource_type=ConfigResource.BROKER, resource_name=str(node_id), configuration_keys=None)

    def read() -> DescribeConfigsResult:
        message = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        results: list[DescribeConfigsResult] = asked.request(message, node_id).results
        if len(results) != 1:
            raise CannotLearn(f"broker {node_id} describes {len(results)} resources, although the request names one")
        check(results[0].error_code)
        return results[0]

    return asked.read("settings of brokers", CLUSTER_CONFIGS, read)


def _with_source(asked: Asked, result: DescribeConfigsResult | None, source: Source) -> Settings:
    """Returns the values that the source `source` gives to settings, even if another source overrides these values. Secrets are
    left out.
    """
    found: Settings = {}
    for each in result.configs if result is not None else ():
        # A broker that returns no synonyms returns no source, either. From such a broker, each value that is not a default
        # counts as static.
        values = [synonym.value for synonym in each.synonyms if synonym.source == source and synonym.name == each.name]
        if not values and each.config_source == source:
            values = [each.value]
        if values and (each.is_sensitive or each.name in OF_ITS_MACHINE or each.name.startswith(OF_ITS_LISTENERS)):
            asked.left_out.add(each.name)
        elif values and values[0] is not None:
            found[each.name] = values[0]
    return found


def _settings_of(asked: Asked, kind: ConfigResource, names: Sequence[str], source: Source, section: str) -> dict[str, Settings]:
    """Returns the settings that were set for each topic or group."""
    found: dict[str, Settings] = {}
    refused: Counter[str] = Counter()
    needs = f"DESCRIBE_CONFIGS on {kind.name}"
    done = 0
    for piece in pieces(names):
        asked.progress(section, done, len(names))
        resources = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in piece]
        message = DescribeConfigsRequest(resources=resources)
        for result in asked.read(section, needs, partial(_results, asked, message)) or ():
            if result.error_code == ErrorCode.NONE:
                found[result.resource_name] = _with_source(asked, result, source)
            elif result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # the topic was deleted after Metadata
                refused[error_name(result.error_code)] += 1
        done += len(piece)
    for error, count in refused.items():
        asked.note(f"{section} ({count} of {len(names)})", error, needs)
    return found


def _results(asked: Asked, message: DescribeConfigsRequest) -> list[DescribeConfigsResult]:
    return asked.request(message).results  # type: ignore[no-any-return]


# Topics and groups


def topics(asked: Asked) -> list[Topic]:
    """Returns the topics that the user is allowed to describe. Kafka does not list the other topics."""
    seen = [each for each in asked.metadata.topics if each.error_code == ErrorCode.NONE and each.name]
    for each in asked.metadata.topics:
        if each.error_code != ErrorCode.NONE:
            asked.note("topics", error_name(each.error_code), "DESCRIBE on TOPIC")
    own = _settings_of(asked, ConfigResource.TOPIC, [each.name or "" for each in seen], Source.TOPIC, "settings of topics")
    return [Topic(name=each.name or "", replicas=_replicas(each), settings=own.get(each.name or "", {})) for each in seen]


def _replicas(topic: MetadataResponseTopic) -> list[list[int]]:
    return [list(each.replica_nodes) for each in sorted(topic.partitions, key=lambda each: each.partition_index)]


def groups(asked: Asked) -> list[Group]:
    """Returns the groups that the user is allowed to describe. Each group has the protocol on which its members have agreed."""
    found: dict[str, Group] = {}
    by_broker: dict[tuple[int, str], list[str]] = defaultdict(list)
    for number, node_id in enumerate(asked.addresses):
        asked.progress("groups", number, len(asked.addresses))
        for each in asked.read("groups", CLUSTER, partial(_listed, asked, node_id)) or ():
            kind = each.group_type.lower() or "classic"
            found[each.group_id] = Group(name=each.group_id, type=kind, protocol_type=each.protocol_type)
            by_broker[node_id, kind].append(each.group_id)
    for number, ((node_id, kind), names) in enumerate(by_broker.items()):
        asked.progress("protocols of groups", number, len(by_broker))
        for piece in pieces(names):
            read = partial(_protocols, asked, node_id, kind, piece)
            for name, protocol in (asked.read("protocols of groups", "DESCRIBE on GROUP", read) or {}).items():
                if name in found:
                    found[name].protocol = protocol
    modern = [name for name, group in found.items() if group.type != "classic"]
    own = _settings_of(asked, ConfigResource.GROUP, modern, Source.GROUP, "settings of groups") if modern else {}
    for name, settings in own.items():
        if name in found:
            found[name].settings = settings
    return [found[name] for name in sorted(found)]


def _listed(asked: Asked, node_id: int) -> Sequence[Any]:
    response = asked.request(ListGroupsRequest(), node_id)
    check(response.error_code)
    return response.groups  # type: ignore[no-any-return]


def _protocols(asked: Asked, node_id: int, kind: str, names: Sequence[str]) -> dict[str, str]:
    """Returns the protocols (assignors) of the groups `names`, whose type is `kind`. Streams groups have no assignor."""
    if kind == "classic":
        described = asked.request(DescribeGroupsRequest(groups=list(names)), node_id).groups
        return {each.group_id: each.protocol_data for each in _described(asked, described)}
    if kind not in ("consumer", "share"):
        return {}
    request = ConsumerGroupDescribeRequest if kind == "consumer" else ShareGroupDescribeRequest
    described = asked.request(request(group_ids=list(names), include_authorized_operations=False), node_id).groups
    return {each.group_id: each.assignor_name for each in _described(asked, described)}


def _described(asked: Asked, described: Iterable[T]) -> Iterable[T]:
    for each in described:
        code = getattr(each, "error_code", 0)
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            asked.note("protocols of groups", error_name(code), "DESCRIBE on GROUP")
        elif code == ErrorCode.NONE:
            yield each


def visible(asked: Asked) -> None:
    """If the user is not allowed to describe all topics and groups, notes that some topics or groups may be missing. Kafka
    lists only the topics and groups that the user may describe, and returns no error.
    """

    def read() -> int:
        response = asked.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
        check(response.error_code)
        return int(response.cluster_authorized_operations)

    try:
        allowed = read()
    except (NotOffered, Refused):
        return
    if allowed != -(2**31) and not allowed & 1 << Operation.DESCRIBE:
        asked.note("groups", "only groups that this user may describe are known", CLUSTER)
        asked.note("topics", "only topics that this user may describe are known", "DESCRIBE on TOPIC *")


# Quotas, ACLs, users


def quotas(asked: Asked) -> list[Quota]:
    """Returns the quotas of clients."""

    def read() -> list[Quota]:
        response = asked.request(DescribeClientQuotasRequest(components=[], strict=False))
        check(response.error_code)
        return [
            Quota(
                entity={part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in each.entity},
                limits={limit.key: limit.value for limit in each.values if math.isfinite(limit.value)},
            )
            for each in response.entries or ()
        ]

    found = asked.read("quotas", CLUSTER_CONFIGS, read) or []
    return sorted(found, key=lambda each: sorted(each.entity.items()))


def acls(asked: Asked) -> list[Acl]:
    """Returns the ACLs. A cluster without an authorizer has no ACLs."""

    def read() -> list[Acl]:
        request = DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY, resource_name_filter=None, pattern_type_filter=PatternType.ANY,
            principal_filter=None, host_filter=None, operation=Operation.ANY, permission_type=Permission.ANY,
        )  # fmt: skip
        response = asked.request(request)
        if response.error_code == ErrorCode.SECURITY_DISABLED:
            return []
        check(response.error_code)
        return [
            Acl(
                permission=_word(Permission, each.permission_type), principal=each.principal,
                operation=_word(Operation, each.operation), resource=_word(ResourceType, resource.resource_type),
                name=resource.resource_name, pattern=_word(PatternType, resource.pattern_type), host=each.host,
            )
            for resource in response.resources
            for each in resource.acls
        ]  # fmt: skip

    found = asked.read("acls", CLUSTER, read) or []
    return sorted(found, key=msgspec.structs.astuple)


def _word(kind: Callable[[int], Any], number: int) -> str:
    """Returns the name that a number has in an enumeration. If this version of wirebroker does not know the number, returns the
    number as text."""
    try:
        return str(kind(number).name)
    except ValueError:
        return str(number)


def users(asked: Asked) -> list[User]:
    """Returns the users with SCRAM credentials."""

    def read() -> list[User]:
        # The list must be empty, and must not be null: to a null list, Kafka 3.9 to 4.3 never responds if the user lacks the
        # permission.
        response = asked.request(DescribeUserScramCredentialsRequest(users=[]))
        check(response.error_code)
        return [
            User(name=each.user, mechanisms={_mechanism(info.mechanism): info.iterations for info in each.credential_infos})
            for each in response.results
            if each.error_code == ErrorCode.NONE
        ]

    return sorted(asked.read("users", CLUSTER, read) or [], key=lambda each: each.name)


def _mechanism(number: int) -> str:
    return SCRAM.get(number, str(number))
