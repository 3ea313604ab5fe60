"""ListConfigResources, versions 0–1.

ListConfigResources returns those resources of the requested types that have settings. A request without types gets all types.
Version 0, whose name was ListClientMetricsResources, returns only client metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.config_resources import ResourceType
from wirebroker.core.java_order import buckets_for, hash_order, java_hash


def handle(request: ListConfigResourcesRequest, exchange: Exchange) -> Steps:
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
