"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerRequest(Message):
    """Kafka's UnregisterBrokerRequest, versions 0 to 0."""

    broker_id: int = wire("int32", entity="brokerId")


@message(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerResponse(Message):
    """Kafka's UnregisterBrokerResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
