"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=10, versions=(0, 0))
class ShareGroupMemberMetadataKey(Message):
    """Kafka's ShareGroupMemberMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@message(key=10, versions=(0, 0), flexible=0)
class ShareGroupMemberMetadataValue(Message):
    """Kafka's ShareGroupMemberMetadataValue, versions 0 to 0."""

    rack_id: str | None = wire("string", nullable=0)
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: list[str] = wire(["string"])
