"""GetTelemetrySubscriptions and PushTelemetry, version 0 (KIP-714).

As in Kafka, the APIs are announced only with a receiver of clients' metrics (`telemetry`), but they are served even without a
receiver.

A client gets an id, and the names of the metrics that it should push. The names are from the subscriptions that match the
client. A client that asks before its interval is over gets THROTTLING_QUOTA_EXCEEDED.

A push gets THROTTLING_QUOTA_EXCEEDED if it arrives too early, UNKNOWN_SUBSCRIPTION_ID if it names another subscription,
TELEMETRY_TOO_LARGE if it exceeds telemetry.max.bytes, and INVALID_RECORD if it cannot be decompressed. After a push that the
client marks as its last push (`terminating`), every further push gets INVALID_REQUEST.
"""

from __future__ import annotations

import logging

from kafkawire.compression import GZIP, LZ4, NAMES, SNAPPY, ZSTD
from kafkawire.declare import Message
from kafkawire.errors import ErrorCode, WireError
from kafkawire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkawire.primitives import ZERO_UUID, format_uuid, new_uuid
from wirebroker.apis.exchange import Exchange
from wirebroker.core.releases.changes import since
from wirebroker.core.telemetry import Client, push_of

FORGIVES_CLIENTS = since("4.0", "after errors 76 and 117 a client may call GetTelemetrySubscriptions without waiting")
READS_METRICS = since("3.8", "client metrics that cannot be decompressed are refused with error 87")
LIMITS_METRICS = since("4.3", "decompressed metrics of clients are limited by telemetry.max.bytes")

ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)

logger = logging.getLogger("wirebroker")
MOST_BYTES = 16 << 20
"""The largest size in bytes of decompressed metrics, for releases that have no setting for this size."""
RESERVED = (bytes(16), bytes(15) + b"\1")
"""Ids that no client may have (Kafka's Uuid.RESERVED)."""


def get_telemetry_subscriptions(request: GetTelemetrySubscriptionsRequest, exchange: Exchange) -> Message:
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = new_uuid(exchange.cluster.random_bytes)
    client = _client(instance, exchange)
    if not client.may_ask(exchange.now, forgives=FORGIVES_CLIENTS.of(exchange.cluster.configs.release)):
        return exchange.refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    client.error = ErrorCode.NONE
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE, client_instance_id=instance, subscription_id=client.subscription_id,
        accepted_compression_types=list(ACCEPTED), push_interval_ms=client.interval_ms,
        telemetry_max_bytes=exchange.cluster.configs.integer("telemetry.max.bytes"), delta_temporality=True,
        requested_metrics=client.metrics,
    )  # fmt: skip


def _client(instance: bytes, exchange: Exchange) -> Client:
    """Returns the state that the broker keeps about the client of this exchange."""
    connection = exchange.connection
    software, version = connection.software
    attributes = {
        "client_instance_id": format_uuid(instance), "client_id": exchange.client_id,
        "client_software_name": software, "client_software_version": version,
        "client_source_address": connection.client_host, "client_source_port": None,
    }  # fmt: skip
    return exchange.engine.telemetry.client(connection.node_id, connection.number, instance, attributes, exchange.now)


def push_telemetry(request: PushTelemetryRequest, exchange: Exchange) -> PushTelemetryResponse:
    if request.client_instance_id in RESERVED:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    client = _client(request.client_instance_id, exchange)
    error = _error(request, client, exchange)
    client.terminating = request.terminating
    if not error and request.metrics:
        error = _keep(request, exchange)
    client.error = error
    return PushTelemetryResponse(error_code=error)


def _error(request: PushTelemetryRequest, client: Client, exchange: Exchange) -> ErrorCode:
    """Returns the error of a refused push, in Kafka's order of checks, or NONE."""
    if client.terminating:
        return ErrorCode.INVALID_REQUEST
    if not client.may_push(exchange.now) and not request.terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if request.subscription_id != client.subscription_id:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if not 0 <= request.compression_type < len(NAMES):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > exchange.cluster.configs.integer("telemetry.max.bytes"):
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


def _keep(request: PushTelemetryRequest, exchange: Exchange) -> ErrorCode:
    configs = exchange.cluster.configs
    limit = configs.integer("telemetry.max.bytes") if LIMITS_METRICS.of(configs.release) else MOST_BYTES
    connection = exchange.connection
    try:
        push = push_of(request, exchange.now, connection.node_id, exchange.client_id, connection.software, limit)
    except WireError as wrong:
        logger.info("the metrics of the client %s cannot be read: %s", exchange.client_id, wrong)
        return ErrorCode.INVALID_RECORD if READS_METRICS.of(configs.release) else ErrorCode.NONE
    exchange.engine.telemetry.pushes.append(push)
    if exchange.engine.trace.changes:
        exchange.engine.trace.pushed(exchange.now, connection, exchange.client_id, request)
    return ErrorCode.NONE
