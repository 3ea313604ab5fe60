"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=58, versions=(0, 0), flexible=0)
class EnvelopeRequest(Message):
    """Kafka's EnvelopeRequest, versions 0 to 0."""

    request_data: bytes = wire("bytes")
    request_principal: bytes | None = wire("bytes", nullable=0)
    client_host_address: bytes = wire("bytes")


@message(key=58, versions=(0, 0), flexible=0)
class EnvelopeResponse(Message):
    """Kafka's EnvelopeResponse, versions 0 to 0."""

    response_data: bytes | None = wire("bytes", nullable=0, default=None)
    error_code: int = wire("int16", entity="errorCode")
