"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=22, versions=(0, 0), flexible=0)
class RemoveUserScramCredentialRecord(Message):
    """Kafka's RemoveUserScramCredentialRecord, versions 0 to 0."""

    name: str = wire("string")
    mechanism: int = wire("int8")
