"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=2, versions=(0, 0))
class GroupMetadataKey(Message):
    """Kafka's GroupMetadataKey, versions 0 to 0."""

    group: str = wire("string", until=0, default="")


@struct
class MemberMetadata(Struct):
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=3, nullable=3, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout: int = wire("int32", since=1, default=-1)
    session_timeout: int = wire("int32")
    subscription: bytes = wire("bytes")
    assignment: bytes = wire("bytes")


@message(key=2, versions=(0, 4), flexible=4)
class GroupMetadataValue(Message):
    """Kafka's GroupMetadataValue, versions 0 to 4."""

    protocol_type: str = wire("string")
    generation: int = wire("int32")
    protocol: str | None = wire("string", nullable=0)
    leader: str | None = wire("string", nullable=0)
    current_state_timestamp: int = wire("int64", since=2, default=-1)
    members: list[MemberMetadata] = wire([MemberMetadata])
