"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=77, versions=(1, 1), flexible=0)
class ShareGroupDescribeRequest(Message):
    """Kafka's ShareGroupDescribeRequest, versions 1 to 1."""

    group_ids: list[str] = wire(["string"], entity="groupId")
    include_authorized_operations: bool = wire("bool")


@struct
class TopicPartitions(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    topic_name: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = wire([TopicPartitions])


@struct
class Member(Struct):
    member_id: str = wire("string")
    rack_id: str | None = wire("string", nullable=0, default=None)
    member_epoch: int = wire("int32")
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: list[str] = wire(["string"], entity="topicName")
    assignment: Assignment = wire(Assignment)


@struct
class DescribedGroup(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    group_id: str = wire("string", entity="groupId")
    group_state: str = wire("string")
    group_epoch: int = wire("int32")
    assignment_epoch: int = wire("int32")
    assignor_name: str = wire("string")
    members: list[Member] = wire([Member])
    authorized_operations: int = wire("int32", default=-2147483648)


@message(key=77, versions=(1, 1), flexible=0)
class ShareGroupDescribeResponse(Message):
    """Kafka's ShareGroupDescribeResponse, versions 1 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[DescribedGroup] = wire([DescribedGroup])
