"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=19, versions=(0, 0))
class StreamsGroupMemberMetadataKey(Message):
    """Kafka's StreamsGroupMemberMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@struct
class Endpoint(Struct):
    host: str = wire("string")
    port: int = wire("uint16")


@struct
class KeyValue(Struct):
    key: str = wire("string")
    value: str = wire("string")


@message(key=19, versions=(0, 0), flexible=0)
class StreamsGroupMemberMetadataValue(Message):
    """Kafka's StreamsGroupMemberMetadataValue, versions 0 to 0."""

    instance_id: str | None = wire("string", nullable=0)
    rack_id: str | None = wire("string", nullable=0)
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology_epoch: int = wire("int32")
    process_id: str = wire("string")
    user_endpoint: Endpoint | None = wire(Endpoint, nullable=0, default=None)
    client_tags: list[KeyValue] = wire([KeyValue])
