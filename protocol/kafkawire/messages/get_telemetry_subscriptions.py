"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsRequest(Message):
    """Kafka's GetTelemetrySubscriptionsRequest, versions 0 to 0."""

    client_instance_id: bytes = wire("uuid")


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsResponse(Message):
    """Kafka's GetTelemetrySubscriptionsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    client_instance_id: bytes = wire("uuid")
    subscription_id: int = wire("int32")
    accepted_compression_types: list[int] = wire(["int8"])
    push_interval_ms: int = wire("int32")
    telemetry_max_bytes: int = wire("int32")
    delta_temporality: bool = wire("bool")
    requested_metrics: list[str] = wire(["string"])
