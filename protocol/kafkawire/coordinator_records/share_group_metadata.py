"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=11, versions=(0, 0))
class ShareGroupMetadataKey(Message):
    """Kafka's ShareGroupMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@message(key=11, versions=(0, 0), flexible=0)
class ShareGroupMetadataValue(Message):
    """Kafka's ShareGroupMetadataValue, versions 0 to 0."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64")
