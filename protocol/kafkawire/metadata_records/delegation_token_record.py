"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=10, versions=(0, 0), flexible=0)
class DelegationTokenRecord(Message):
    """Kafka's DelegationTokenRecord, versions 0 to 0."""

    owner: str = wire("string")
    requester: str = wire("string")
    renewers: list[str] = wire(["string"])
    issue_timestamp: int = wire("int64")
    max_timestamp: int = wire("int64")
    expiration_timestamp: int = wire("int64")
    token_id: str = wire("string")
