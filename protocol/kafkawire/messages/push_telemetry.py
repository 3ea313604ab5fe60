"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryRequest(Message):
    """Kafka's PushTelemetryRequest, versions 0 to 0."""

    client_instance_id: bytes = wire("uuid")
    subscription_id: int = wire("int32")
    terminating: bool = wire("bool")
    compression_type: int = wire("int8")
    metrics: bytes = wire("bytes")


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryResponse(Message):
    """Kafka's PushTelemetryResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
