"""FindCoordinator, versions 0–6.

Finds the broker that coordinates a group (key type 0), a transactional id (1), or from version 6 a share partition (2, key
`group:topicId:partition`). Version 4 allows several keys. The first FindCoordinator creates the coordinators' topic. On a cold
start, this first FindCoordinator gets COORDINATOR_NOT_AVAILABLE, as in Kafka, and the next FindCoordinator finds the
coordinator. Then the first request to the coordinator gets NOT_COORDINATOR, because the coordinator is still loading. The
coordinator loads before this request only if `Cluster.loading_ms` is set and has passed. While a key's partition has no leader,
the response is COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import re
from contextlib import suppress

from kafkawire.errors import ErrorCode
from kafkawire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.java_texts import parse_integer, trim
from wirebroker.common.slices import IDS, mapped, pauses
from wirebroker.core.cluster import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from wirebroker.core.configs import ConfigError

KINDS = {0: ("group", GROUP_TOPIC), 1: ("transaction", TRANSACTION_TOPIC), 2: ("share", SHARE_TOPIC)}
SHARE, SHARE_SINCE = 2, 6
MESSAGES: dict[int, str] = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details.",
}
"""Kafka's error messages, for versions 1 to 3 of the response. From version 4 on, only an unknown type of coordinator gets a
message."""
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
"""The texts that Kafka's Uuid.fromString reads."""


def handle(request: FindCoordinatorRequest, exchange: Exchange) -> Steps:
    if exchange.version >= 4:
        keys = request.coordinator_keys
        coordinators = yield from mapped(lambda key: _find(request.key_type, key, exchange), keys, pauses(IDS))
        return FindCoordinatorResponse(coordinators=coordinators)
    found = _find(request.key_type, request.key, exchange)
    return FindCoordinatorResponse(
        error_code=found.error_code, error_message=MESSAGES[found.error_code], node_id=found.node_id, host=found.host,
        port=found.port,
    )  # fmt: skip


def _find(key_type: int, key: str, exchange: Exchange) -> Coordinator:
    cluster = exchange.cluster
    if key_type not in KINDS:
        return _none(key, ErrorCode.INVALID_REQUEST, MESSAGES[ErrorCode.INVALID_REQUEST])
    if key_type == SHARE and (exchange.version < SHARE_SINCE or not _names_share_partition(key)):
        return _none(key, ErrorCode.INVALID_REQUEST)
    kind, topic = KINDS[key_type]
    node_id = cluster.coordinator(kind, key)
    if node_id is None and topic not in cluster.topics:
        with suppress(OSError, ConfigError):  # the brokers' settings may be invalid for this topic
            cluster.create_internal_topic(topic, exchange.now)
        cluster.decisions.write_down(exchange.now)
        node_id = None if cluster.cold_start else cluster.coordinator(kind, key)
    broker = cluster.brokers.get(node_id) if node_id is not None else None
    if broker is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    host, port = broker.address(exchange.connection.listener)
    return Coordinator(key=key, node_id=broker.node_id, host=host, port=port, error_code=ErrorCode.NONE, error_message="")


def _none(key: str, code: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)


def _names_share_partition(key: str) -> bool:
    """Tells whether the text is the key of a share partition (Kafka's SharePartitionKey.validate)."""
    group_id, topic_id, index = ["", "", "", *key.rsplit(":", 2)][-3:]
    return bool(trim(group_id)) and _UUID.fullmatch(topic_id) is not None and parse_integer(index) is not None
