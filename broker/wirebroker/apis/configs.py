"""DescribeConfigs, versions 1–4.

DescribeConfigs returns the settings of topics, brokers, groups and client metrics: each effective value, its source, and on
request its synonyms. Under a broker's id, it shows the broker's own settings. Under the empty name, it shows the settings that
were altered for all brokers. The loggers of a broker are described in `core/loggers.py`. The documentation of each setting is a
sentence that wirebroker wrote, not Kafka's text.

ListConfigResources, versions 0–1.

ListConfigResources returns those resources of the requested types that have settings. A request without types gets all types.
Version 0, whose name was ListClientMetricsResources, returns only client metrics.

IncrementalAlterConfigs, versions 0–1.

Changes single settings of topics, brokers (the empty name means all brokers), groups and client metrics. A change sets a value,
deletes a value, adds elements to a list, or removes elements from a list. If one change of a resource is refused, all changes
of this resource are refused. Only some settings of a broker can change while it runs.

AlterConfigs, versions 0–2.

The older form of IncrementalAlterConfigs: the given settings replace all settings of the resource.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from copy import copy
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages import incremental_alter_configs as incremental
from kafkawire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkawire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import MetadataChanges
from wirebroker.common.java_texts import parse_integer
from wirebroker.common.slices import Pause, mapped, pauses
from wirebroker.core.acls import has_settings
from wirebroker.core.config_resources import (
    KINDS,
    REPEATED,
    SHOWS_CLIENT_METRICS,
    Alteration,
    Change,
    Operation,
    ResourceType,
    describe_client_metrics,
    describe_group,
    repeated,
)
from wirebroker.core.configs import ConfigError, Entry, Source, TopicConfigs
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.names import topic_name_error
from wirebroker.core.quorum import LISTENER, VOTERS, endpoint
from wirebroker.core.refusals import DONE, MOST_RECORDS, TOO_LARGE, Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since, until
from wirebroker.core.setting_definitions import ConfigType, meanings
from wirebroker.requests.effects import Outcome

REPEATS_UNKNOWN_KINDS = since("2.7", "DescribeConfigs repeats the number of an unknown resource type")
FINDS_DESCRIBED_TOPICS = since("2.0", "DescribeConfigs refuses an unknown topic")
EMPTY_DESCRIBED = since("2.7", "the response to DescribeConfigs has empty texts instead of null")
REPEATS_DESCRIBED_RESOURCES = since("2.7", "DescribeConfigs has two results for a resource named twice")

RESOURCES = 16
"""The number of resources in a slice. A resource has dozens or hundreds of settings."""

REPEATS_ALTERED_KINDS = since("2.6", "AlterConfigs repeats the number of an unknown resource type")
READS_NULL_SETTINGS = until("2.0", "the broker closes the connection after an AlterConfigs with a null value").then(
    "2.6", True, "an AlterConfigs with a null value gets a response"
)


def describe_configs(request: DescribeConfigsRequest, exchange: Exchange) -> Steps:
    pause = pauses(RESOURCES)
    release = exchange.cluster.configs.release
    resources = request.resources
    if not REPEATS_DESCRIBED_RESOURCES.of(release):
        resources = list({(each.resource_type, each.resource_name): each for each in resources}.values())
    if refuses_whole(request, exchange):
        refusal = Refusal(
            ErrorCode.INVALID_REQUEST,
            "This most likely occurs because of a request being malformed by the client library or the message was "
            "sent to an incompatible broker. See the broker logs for more details.",
        )
        results = [_result(resource, refusal) for resource in resources]
        for result in results:
            result.resource_type = told_kind(result.resource_type, release, repeats=REPEATS_UNKNOWN_KINDS.of(release))
        return DescribeConfigsResponse(results=results)
    results = []
    shown = Shown(request.include_synonyms, request.include_documentation)
    for resource in resources:
        yield from pause()
        try:
            found = _entries(resource, exchange)
        except ConfigError:  # an earlier release has stored a value that is not valid in this release
            found = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        chooses = SHOWS_CLIENT_METRICS.of(release) or resource.resource_type != ResourceType.CLIENT_METRICS
        if not isinstance(found, Refusal) and resource.configuration_keys and chooses:
            wanted = set(resource.configuration_keys)
            found = [entry for entry in found if entry.name in wanted]
        result = _result(resource, found, shown)
        if not EMPTY_DESCRIBED.of(release) and not result.error_message:
            _without_texts(result)
        results.append(result)
    return DescribeConfigsResponse(results=results)


def refuses_whole(request: DescribeConfigsRequest, exchange: Exchange) -> bool:
    """Tells whether the broker refuses the whole request, before it looks at the client's rights: the request names a resource
    of an unknown type."""
    release = exchange.cluster.configs.release
    kinds = {each.resource_type for each in request.resources}
    return any(kind not in KINDS or not has_settings(kind, release) for kind in kinds)


def _without_texts(result: DescribeConfigsResult) -> None:
    """Remove empty texts, as Kafka before 2.7 does."""
    result.error_message = None
    for each in result.configs:
        each.documentation = each.documentation or None


def told_kind(kind: int, release: Release, *, repeats: bool) -> int:
    """Returns the kind of resource to put into the response. For an unknown kind, this is 0 or, with `repeats`, the number in
    the request."""
    return kind if repeats or has_settings(kind, release) else 0


def _entries(resource: DescribeConfigsResource, exchange: Exchange) -> list[Entry] | Refusal:
    name, kind = resource.resource_name, resource.resource_type
    configs = exchange.cluster.configs
    if kind == ResourceType.TOPIC:
        return _topic(name, exchange)
    if kind == ResourceType.BROKER:
        return _broker(name, exchange)
    if kind == ResourceType.BROKER_LOGGER:
        return _loggers(name, exchange)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(name, configs)
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe_group(name, configs, exchange.node_id)


def _topic(name: str, exchange: Exchange) -> list[Entry] | Refusal:
    error = topic_name_error(name)
    if error is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    topic = exchange.cluster.topics.get(name)
    if topic is None and not FINDS_DESCRIBED_TOPICS.of(exchange.cluster.configs.release):
        return TopicConfigs(exchange.cluster.configs, {}).describe(exchange.node_id)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return topic.configs.describe(exchange.node_id)


def _broker(name: str, exchange: Exchange) -> list[Entry] | Refusal:
    configs, node_id = exchange.cluster.configs, exchange.node_id
    if not name:
        return configs.describe_altered()
    if (number := parse_integer(name)) is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != node_id:
        message = f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    return configs.describe(node_id, _facts(exchange))


def _facts(exchange: Exchange) -> Mapping[str, str]:
    """Returns the settings that only the running broker knows."""
    node_id = exchange.node_id
    broker = exchange.cluster.brokers[node_id]
    listeners = ",".join(f"{name}://{host}:{port}" for name, (host, port) in broker.addresses.items())
    facts = {
        "broker.id": str(node_id),
        "controller.listener.names": LISTENER,
        "node.id": str(node_id),
        "process.roles": "broker,controller",
    }
    if broker.rack is not None:
        facts["broker.rack"] = broker.rack
    if exchange.engine.store is not None:
        facts["log.dirs"] = ",".join(exchange.cluster.log_dirs.paths(exchange.node_id))
    if listeners and exchange.cluster.configs.release.has_zookeeper:
        facts |= {"advertised.listeners": listeners, "listeners": listeners}
    elif listeners:
        controllers = {each.node_id: endpoint(each, exchange.cluster) for each in exchange.cluster.brokers.values()}
        host, port = controllers[node_id]
        facts |= {"advertised.listeners": listeners, "listeners": f"{listeners},{LISTENER}://{host}:{port}"}
        facts[VOTERS] = ",".join(f"{each}@{host}:{port}" for each, (host, port) in controllers.items())
    return facts


def _loggers(name: str, exchange: Exchange) -> list[Entry] | Refusal:
    node_id = exchange.node_id
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if (number := parse_integer(name)) is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != node_id:
        message = f"Unexpected broker id, expected {node_id} but received {name}"
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    levels = exchange.cluster.brokers[node_id].loggers.levels(exchange.cluster.configs.release)
    return [Entry(logger, level, Source.LOGGER, False, False, ConfigType.UNKNOWN, []) for logger, level in levels]


def _result(
    resource: DescribeConfigsResource, found: list[Entry] | Refusal, shown: Shown | None = None
) -> DescribeConfigsResult:
    refusal = found if isinstance(found, Refusal) else Refusal(ErrorCode.NONE, "")
    entries = [] if isinstance(found, Refusal) else found
    return DescribeConfigsResult(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=shown.configs(entries) if shown is not None else [],
    )


class Shown:
    """Builds the settings in one DescribeConfigs response.

    All topics that do not override a setting share one `Entry`, so the result for this `Entry` is built only once.

    The key of a built result is the `id()` of its `Entry`. `Shown` also keeps the `Entry`: as long as the `Entry` exists, no
    other object gets this id.
    """

    def __init__(self, include_synonyms: bool, include_documentation: bool) -> None:
        self._include_synonyms = include_synonyms
        self._meanings = meanings() if include_documentation else {}
        self._made: dict[int, tuple[Entry, DescribeConfigsResourceResult]] = {}
        self._lists: dict[int, tuple[list[Entry], list[DescribeConfigsResourceResult]]] = {}

    def configs(self, entries: list[Entry]) -> list[DescribeConfigsResourceResult]:
        """Returns the settings in the response for these entries."""
        made = self._lists.get(id(entries))
        if made is None:
            made = self._lists[id(entries)] = (entries, [self._config(entry) for entry in entries])
        return made[1]

    def _config(self, entry: Entry) -> DescribeConfigsResourceResult:
        made = self._made.get(id(entry))
        if made is None:
            made = self._made[id(entry)] = (entry, _config(entry, self._include_synonyms, self._meanings))
        return made[1]


def _config(entry: Entry, include_synonyms: bool, documentation: Mapping[str, str]) -> DescribeConfigsResourceResult:
    synonyms = []
    untyped = entry.source is Source.LOGGER or (entry.source is Source.CLIENT_METRICS and entry.type is ConfigType.UNKNOWN)
    if include_synonyms:
        synonyms = [DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in entry.synonyms]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=synonyms,
        config_type=entry.type,
        documentation="" if untyped else documentation.get(entry.name),
    )


def list_config_resources(request: ListConfigResourcesRequest, exchange: Exchange) -> Steps:
    """Respond with the names, in Kafka's order of types."""
    cluster = exchange.cluster
    brokers = [str(node_id) for node_id in cluster.registered_brokers]
    known: dict[int, Iterable[str]] = {
        ResourceType.GROUP: _in_java_order(cluster.configs.groups),
        ResourceType.CLIENT_METRICS: _in_java_order(cluster.configs.client_metrics),
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.BROKER: brokers,
        ResourceType.TOPIC: cluster.topics,
    }
    supported = known.keys() if exchange.version >= 1 else {ResourceType.CLIENT_METRICS}
    wanted = set(request.resource_types) or supported
    if not wanted <= supported:
        return exchange.refused(ErrorCode.UNSUPPORTED_VERSION)
    named = [(name, kind) for kind, names in known.items() if kind in wanted for name in names]
    resources = yield from mapped(lambda each: ConfigResource(resource_name=each[0], resource_type=each[1]), named, pauses())
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources)


def _in_java_order(names: Collection[str]) -> Iterable[str]:
    return hash_order(names, java_hash, buckets_for(len(names)))


def incremental_alter_configs(request: incremental.IncrementalAlterConfigsRequest, exchange: Exchange) -> Steps:
    made = incremental.IncrementalAlterConfigsResponse
    return _alter(request, exchange, made, incremental.AlterConfigsResourceResponse, replaces=False)


def alter_configs(request: AlterConfigsRequest, exchange: Exchange) -> Steps | Outcome:
    if not READS_NULL_SETTINGS.of(exchange.cluster.configs.release) and _has_null(request):
        return exchange.close("this release of Kafka closes the connection for a setting without a value")
    return _alter(request, exchange, AlterConfigsResponse, AlterConfigsResourceResponse, replaces=True)


def _alter(
    request: Any, exchange: Exchange, response: Callable[..., Message], result: Callable[..., Any], *, replaces: bool
) -> Steps:
    """Change the settings that a request names; `response` and `result` are the message classes of the API."""
    release = exchange.cluster.configs.release
    repeats = REPEATS_ALTERED_KINDS.of(release) or not replaces

    def failed(resource: Any, refusal: Refusal) -> Any:
        name, kind = resource.resource_name, resource.resource_type
        told = told_kind(kind, release, repeats=repeats)
        return result(error_code=refusal.code, error_message=refusal.message, resource_type=told, resource_name=name)

    if exchange.cluster.configs.release.has_zookeeper:
        if whole := _fails_whole(request, exchange, replaces=replaces):
            return response(responses=[failed(each, whole) for each in request.resources])
        if not replaces:  # if a resource is named twice, its last entry counts
            request.resources = list({(each.resource_type, each.resource_name): each for each in request.resources}.values())
    results: list[Any] = []
    changes = MetadataChanges(exchange, results)
    alterations: list[Alteration] = yield from mapped(
        lambda each: _alteration(each, exchange, replaces=replaces), request.resources, changes.pause
    )
    twice = repeated((each.kind, each.name) for each in alterations)
    sent = [each for each in alterations if (each.kind, each.name) not in twice]
    whole = yield from _refused_by_controller(sent, changes.pause, writes=not request.validate_only)
    for alteration in alterations:
        yield from changes.pause()
        kind, name = alteration.kind, alteration.name
        if (kind, name) in twice:
            refusal: Refusal | None = REPEATED
        else:
            refusal = alteration.alter(validate_only=request.validate_only, whole=whole)
        code, message = refusal or DONE
        told = told_kind(kind, release, repeats=repeats)
        results.append(result(error_code=code, error_message=message, resource_type=told, resource_name=name))
    changes.write_down()
    return response(responses=results)


def _alteration(resource: Any, exchange: Exchange, *, replaces: bool) -> Alteration:
    """Returns the changes to a resource. They are already made if the client's rights were checked (`EarlyRefusals`)."""
    if isinstance(resource, Alteration):
        return resource
    kind, name = resource.resource_type, resource.resource_name
    wanted = [Change(each.name, getattr(each, "config_operation", Operation.SET), each.value) for each in resource.configs]
    return Alteration(exchange.cluster, exchange.node_id, kind, name, wanted, replaces=replaces)


def _refused_by_controller(
    alterations: list[Alteration], pause: Pause, *, writes: bool
) -> Generator[None, Any, Refusal | None]:
    """Returns the error with which Kafka's controller refuses all these alterations, or None. The controller makes all valid
    changes of a request or none, so it refuses all if it fails at one, or would have to write too many records."""
    most = records = 0
    for alteration in alterations:
        yield from pause()
        most += alteration.most_records
    for alteration in alterations:
        yield from pause()
        if alteration.fails_controller or (writes and alteration.cannot_be_written):
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        records += alteration.records if most > MOST_RECORDS else 0
        if records > MOST_RECORDS:
            return TOO_LARGE
    return None


class EarlyRefusals:
    """Tells which resources of a request the receiving broker refuses before anybody looks at the client's rights."""

    def __init__(self, request: Any, exchange: Exchange) -> None:
        self._exchange = exchange
        self._replaces = isinstance(request, AlterConfigsRequest)
        self._checks = not exchange.cluster.configs.release.has_zookeeper
        self._twice = repeated((each.resource_type, each.resource_name) for each in request.resources)
        self._made: dict[int, Alteration] = {}
        """The changes to each resource, by the resource's identity. A resource can have a million changes, so they are made
        once for the rights and for the handler."""

    def refuses(self, resource: Any) -> bool:
        if not self._checks:
            return False
        if (resource.resource_type, resource.resource_name) in self._twice:
            return True
        made = self._made[id(resource)] = _alteration(resource, self._exchange, replaces=self._replaces)
        return made.is_refused_early

    def prepared(self, request: Any) -> Any:
        """Returns a copy of the request that has the changes of a resource in place of the resource, if they are made."""
        changed = copy(request)
        changed.resources = [self._made.get(id(each), each) for each in request.resources]
        return changed


def _has_null(request: Any) -> bool:
    return any(each.value is None for resource in request.resources for each in resource.configs)


def _fails_whole(request: Any, exchange: Exchange, *, replaces: bool) -> Refusal | None:
    """Returns the error with which a broker with ZooKeeper refuses the whole request, or None. The broker refuses null values,
    and kinds of resources that cannot be altered."""
    if replaces and _has_null(request):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    loggers = has_settings(ResourceType.BROKER_LOGGER, exchange.cluster.configs.release)
    for kind in (each.resource_type for each in request.resources):
        if loggers and kind == ResourceType.BROKER_LOGGER:
            if replaces:
                message = "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
                return Refusal(ErrorCode.INVALID_REQUEST, message)
        elif kind not in (ResourceType.TOPIC, ResourceType.BROKER):
            return Refusal(ErrorCode.INVALID_REQUEST, "Unexpected resource type UNKNOWN")
    return None
