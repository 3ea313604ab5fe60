"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=11, versions=(0, 0), flexible=0)
class UserScramCredentialRecord(Message):
    """Kafka's UserScramCredentialRecord, versions 0 to 0."""

    name: str = wire("string")
    mechanism: int = wire("int8")
    salt: bytes = wire("bytes")
    stored_key: bytes = wire("bytes")
    server_key: bytes = wire("bytes")
    iterations: int = wire("int32")
