"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest(Message):
    """Kafka's SaslAuthenticateRequest, versions 0 to 2."""

    auth_bytes: bytes = wire("bytes")


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse(Message):
    """Kafka's SaslAuthenticateResponse, versions 0 to 2."""

    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    auth_bytes: bytes = wire("bytes")
    session_lifetime_ms: int = wire("int64", since=1, default=0)
