"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=94, versions=(0, 0), flexible=0)
class UnregisterControllerRequest(Message):
    """Kafka's UnregisterControllerRequest, versions 0 to 0."""

    controller_id: int = wire("int32")


@message(key=94, versions=(0, 0), flexible=0)
class UnregisterControllerResponse(Message):
    """Kafka's UnregisterControllerResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
