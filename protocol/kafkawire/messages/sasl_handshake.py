"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=17, versions=(0, 1))
class SaslHandshakeRequest(Message):
    """Kafka's SaslHandshakeRequest, versions 0 to 1."""

    mechanism: str = wire("string")


@message(key=17, versions=(0, 1))
class SaslHandshakeResponse(Message):
    """Kafka's SaslHandshakeResponse, versions 0 to 1."""

    error_code: int = wire("int16", entity="errorCode")
    mechanisms: list[str] = wire(["string"])
