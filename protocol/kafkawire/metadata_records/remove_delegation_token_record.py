"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=26, versions=(0, 0), flexible=0)
class RemoveDelegationTokenRecord(Message):
    """Kafka's RemoveDelegationTokenRecord, versions 0 to 0."""

    token_id: str = wire("string")
