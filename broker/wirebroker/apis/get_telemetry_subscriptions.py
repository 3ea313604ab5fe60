"""GetTelemetrySubscriptions, version 0 (KIP-714).

As in Kafka, the API is announced only with a receiver of clients' metrics (`telemetry`), but it is served even without a
receiver. A client gets an id, and the names of the metrics that it should push. The names are from the subscriptions that match
the client. A client that asks before its interval is over gets THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from kafkawire.compression import GZIP, LZ4, SNAPPY, ZSTD
from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.primitives import ZERO_UUID, format_uuid, new_uuid
from wirebroker.apis.exchange import Exchange
from wirebroker.core.releases.changes import since
from wirebroker.core.telemetry import Client

FORGIVES_CLIENTS = since("4.0", "after errors 76 and 117 a client may call GetTelemetrySubscriptions without waiting")

ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)


def handle(request: GetTelemetrySubscriptionsRequest, exchange: Exchange) -> Message:
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = new_uuid(exchange.cluster.random_bytes)
    client = client_of(instance, exchange)
    if not client.may_ask(exchange.now, forgives=FORGIVES_CLIENTS.of(exchange.cluster.configs.release)):
        return exchange.refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    client.error = ErrorCode.NONE
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE, client_instance_id=instance, subscription_id=client.subscription_id,
        accepted_compression_types=list(ACCEPTED), push_interval_ms=client.interval_ms,
        telemetry_max_bytes=exchange.cluster.configs.integer("telemetry.max.bytes"), delta_temporality=True,
        requested_metrics=client.metrics,
    )  # fmt: skip


def client_of(instance: bytes, exchange: Exchange) -> Client:
    """Returns the state that the broker keeps about the client of this exchange."""
    connection = exchange.connection
    software, version = connection.software
    attributes = {
        "client_instance_id": format_uuid(instance), "client_id": exchange.client_id,
        "client_software_name": software, "client_software_version": version,
        "client_source_address": connection.client_host, "client_source_port": None,
    }  # fmt: skip
    return exchange.engine.telemetry.client(connection.node_id, connection.number, instance, attributes, exchange.now)
