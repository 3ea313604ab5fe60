"""DescribeConfigs, versions 1–4.

DescribeConfigs returns the settings of topics, brokers, groups and client metrics: each effective value, its source, and on
request its synonyms. Under a broker's id, it shows the broker's own settings. Under the empty name, it shows the settings that
were altered for all brokers. The loggers of a broker are described in `core/loggers.py`. The documentation of each setting is a
sentence that wirebroker wrote, not Kafka's text.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.java_texts import parse_integer
from wirebroker.common.slices import pauses
from wirebroker.core.acls import has_settings
from wirebroker.core.config_resources import KINDS, SHOWS_CLIENT_METRICS, ResourceType, describe_client_metrics, describe_group
from wirebroker.core.configs import ConfigError, Entry, Source, TopicConfigs
from wirebroker.core.names import topic_name_error
from wirebroker.core.quorum import LISTENER, VOTERS, endpoint
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since
from wirebroker.core.setting_definitions import ConfigType, meanings

REPEATS_UNKNOWN_KINDS = since("2.7", "DescribeConfigs repeats the number of an unknown resource type")
FINDS_DESCRIBED_TOPICS = since("2.0", "DescribeConfigs refuses an unknown topic")
EMPTY_DESCRIBED = since("2.7", "the response to DescribeConfigs has empty texts instead of null")
REPEATS_DESCRIBED_RESOURCES = since("2.7", "DescribeConfigs has two results for a resource named twice")

RESOURCES = 16
"""The number of resources in a slice. A resource has dozens or hundreds of settings."""


def handle(request: DescribeConfigsRequest, exchange: Exchange) -> Steps:
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
