"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=13, versions=(0, 0))
class ShareGroupTargetAssignmentMemberKey(Message):
    """Kafka's ShareGroupTargetAssignmentMemberKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@struct
class TopicPartition(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=13, versions=(0, 0), flexible=0)
class ShareGroupTargetAssignmentMemberValue(Message):
    """Kafka's ShareGroupTargetAssignmentMemberValue, versions 0 to 0."""

    topic_partitions: list[TopicPartition] = wire([TopicPartition])
