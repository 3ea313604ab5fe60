"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=5, versions=(0, 0))
class ConsumerGroupMemberMetadataKey(Message):
    """Kafka's ConsumerGroupMemberMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@struct
class ClassicProtocol(Struct):
    name: str = wire("string")
    metadata: bytes = wire("bytes")


@struct
class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = wire("int32")
    supported_protocols: list[ClassicProtocol] = wire([ClassicProtocol])


@message(key=5, versions=(0, 0), flexible=0)
class ConsumerGroupMemberMetadataValue(Message):
    """Kafka's ConsumerGroupMemberMetadataValue, versions 0 to 0."""

    instance_id: str | None = wire("string", nullable=0)
    rack_id: str | None = wire("string", nullable=0)
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: list[str] = wire(["string"])
    subscribed_topic_regex: str | None = wire("string", nullable=0)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    server_assignor: str | None = wire("string", nullable=0)
    classic_member_metadata: ClassicMemberMetadata | None = wire(ClassicMemberMetadata, nullable=0, tag=0, default=ClassicMemberMetadata)
