"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=14, versions=(0, 0))
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Kafka's ShareGroupCurrentMemberAssignmentKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@struct
class TopicPartitions(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=14, versions=(0, 0), flexible=0)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """Kafka's ShareGroupCurrentMemberAssignmentValue, versions 0 to 0."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    assigned_partitions: list[TopicPartitions] = wire([TopicPartitions])
