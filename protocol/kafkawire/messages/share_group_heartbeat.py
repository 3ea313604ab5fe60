"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=76, versions=(1, 1), flexible=0)
class ShareGroupHeartbeatRequest(Message):
    """Kafka's ShareGroupHeartbeatRequest, versions 1 to 1."""

    group_id: str = wire("string", entity="groupId")
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    rack_id: str | None = wire("string", nullable=0, default=None)
    subscribed_topic_names: list[str] | None = wire(["string"], nullable=0, entity="topicName", default=None)


@struct
class TopicPartitions(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = wire([TopicPartitions])


@message(key=76, versions=(1, 1), flexible=0)
class ShareGroupHeartbeatResponse(Message):
    """Kafka's ShareGroupHeartbeatResponse, versions 1 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    member_id: str | None = wire("string", nullable=0, default=None)
    member_epoch: int = wire("int32")
    heartbeat_interval_ms: int = wire("int32")
    assignment: Assignment | None = wire(Assignment, nullable=0, default=None)
