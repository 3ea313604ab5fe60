"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=15, versions=(0, 0))
class ShareGroupStatePartitionMetadataKey(Message):
    """Kafka's ShareGroupStatePartitionMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@struct
class TopicPartitionsInfo(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    topic_name: str = wire("string")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class TopicInfo(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    topic_name: str = wire("string")


@message(key=15, versions=(0, 0), flexible=0)
class ShareGroupStatePartitionMetadataValue(Message):
    """Kafka's ShareGroupStatePartitionMetadataValue, versions 0 to 0."""

    initializing_topics: list[TopicPartitionsInfo] = wire([TopicPartitionsInfo])
    initialized_topics: list[TopicPartitionsInfo] = wire([TopicPartitionsInfo])
    deleting_topics: list[TopicInfo] = wire([TopicInfo])
