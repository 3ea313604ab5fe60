"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=3, versions=(0, 0))
class ConsumerGroupMetadataKey(Message):
    """Kafka's ConsumerGroupMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@message(key=3, versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue(Message):
    """Kafka's ConsumerGroupMetadataValue, versions 0 to 0."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64", tag=0, default=0)
