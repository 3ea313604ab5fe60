"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=4, versions=(0, 0))
class ConsumerGroupPartitionMetadataKey(Message):
    """Kafka's ConsumerGroupPartitionMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@struct
class PartitionMetadata(Struct):
    partition: int = wire("int32", entity="partition")
    racks: list[str] = wire(["string"])


@struct
class TopicMetadata(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    topic_name: str = wire("string")
    num_partitions: int = wire("int32")
    partition_metadata: list[PartitionMetadata] = wire([PartitionMetadata])


@message(key=4, versions=(0, 0), flexible=0)
class ConsumerGroupPartitionMetadataValue(Message):
    """Kafka's ConsumerGroupPartitionMetadataValue, versions 0 to 0."""

    topics: list[TopicMetadata] = wire([TopicMetadata])
