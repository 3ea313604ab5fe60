"""ApiVersions, versions 0–5.

ApiVersions returns the APIs that this broker serves. The response omits the APIs for clients' metrics unless a receiver of
metrics is configured. The response to a request in an unsupported version has version 0, and names only the versions of
ApiVersions itself (KIP-511). From version 3 on, invalid software names and versions get INVALID_REQUEST. Old clients look for
versions 0 to 2 of Produce. Like Kafka 4, the broker announces these versions but does not serve them. From version 5 on, a
client may name the cluster and the node that it expects (KIP-1242). If the client has reached another broker, it gets
REBOOTSTRAP_REQUIRED.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafkawire.registry import API_VERSIONS, KEYS, versions
from wirebroker.apis import TELEMETRY
from wirebroker.apis.exchange import Exchange
from wirebroker.core.features import ELIGIBLE_REPLICAS, GROUP, KRAFT, SHARE, STREAMS, TRANSACTION
from wirebroker.core.releases import Release, release

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
NO_NODE = -1
TELEMETRY_KEYS = tuple(KEYS[name] for name in TELEMETRY)
FEATURES_FROM_ZERO = 4
"""From this version of ApiVersions on, a feature's minimum level may be 0; older clients cannot read a 0 (KAFKA-17492)."""


PROMISES = {
    TRANSACTION: ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"), GROUP: ("ConsumerGroupHeartbeat",),
    ELIGIBLE_REPLICAS: ("DescribeTopicPartitions",), SHARE: ("ShareGroupHeartbeat",), STREAMS: ("StreamsGroupHeartbeat",),
    KRAFT: ("AddRaftVoter",),
}  # fmt: skip
"""The APIs of each feature.

Clients rely on an announced feature, so the response names a feature only if all its APIs are served.
"""


def handle(request: ApiVersionsRequest, exchange: Exchange) -> Message:
    software = (request.client_software_name, request.client_software_version)
    if exchange.version >= 3 and not all(_SOFTWARE.fullmatch(each) for each in software):
        return exchange.refused(ErrorCode.INVALID_REQUEST)
    if error := _misdirected(request, exchange):
        return exchange.refused(error)
    exchange.connection.software = software
    exchange.engine.authenticator.versions_told(exchange.connection)
    levels = exchange.cluster.configs.features
    own = exchange.cluster.brokers[exchange.node_id].release
    hidden = () if exchange.engine.telemetry.announced else TELEMETRY_KEYS
    keys, features = _offer(own.name, tuple(exchange.connection.versions.items()), hidden)
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=keys.copy(),
        supported_features=[each for each in features if each.min_version > 0 or exchange.version >= FEATURES_FROM_ZERO],
        finalized_features_epoch=exchange.cluster.metadata_offset,
        finalized_features=[
            FinalizedFeatureKey(name=each.name, max_version_level=level, min_version_level=level)
            for each in features
            if (level := levels.get(each.name, 0))
        ],
    )


def _misdirected(request: ApiVersionsRequest, exchange: Exchange) -> ErrorCode:
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None or (request.cluster_id, request.node_id) == (exchange.cluster.cluster_id, exchange.node_id):
        return ErrorCode.NONE
    return ErrorCode.REBOOTSTRAP_REQUIRED


@lru_cache(maxsize=8)
def _offer(
    name: str, served: tuple[tuple[int, tuple[int, int]], ...], hidden: tuple[int, ...]
) -> tuple[list[ApiVersion], list[SupportedFeatureKey]]:
    """Returns the APIs and features of a broker that runs this release and serves these versions. The APIs in `hidden` are left
    out.

    The result is cached, because every client begins with ApiVersions.
    """
    own, known = release(name), {key for key, _ in served}
    keys = [
        ApiVersion(api_key=key, min_version=_first(own, key, oldest), max_version=newest)
        for key, (oldest, newest) in sorted(served)
        if key not in hidden
    ]
    features = [
        SupportedFeatureKey(name=name, min_version=feature.oldest, max_version=feature.newest)
        for name, feature in own.features.items()
        if all(KEYS[api] in known for api in PROMISES.get(name, ()))
    ]
    return keys, features


def _first(own: Release, key: int, oldest: int) -> int:
    """Returns the oldest announced version of an API. The release may announce older versions than it reads."""
    return own.announced[key][0] if key in own.announced and own.read(key)[0] == oldest else oldest


def unsupported_version(served: tuple[int, int] | None = None, *, tells: bool = True) -> ApiVersionsResponse:
    """Returns the response, in version 0, to a request in an unsupported version.

    `served` are the supported versions of ApiVersions. The response names these versions, unless `tells` is false.
    """
    if not tells:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])
    oldest, newest = served or versions(API_VERSIONS)
    keys = [ApiVersion(api_key=API_VERSIONS, min_version=oldest, max_version=newest)]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
