"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicPartitions(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest(Message):
    """Kafka's ConsumerGroupHeartbeatRequest, versions 0 to 1."""

    group_id: str = wire("string", entity="groupId")
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    instance_id: str | None = wire("string", nullable=0, default=None)
    rack_id: str | None = wire("string", nullable=0, default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    subscribed_topic_names: list[str] | None = wire(["string"], nullable=0, entity="topicName", default=None)
    subscribed_topic_regex: str | None = wire("string", since=1, nullable=1, default=None)
    server_assignor: str | None = wire("string", nullable=0, default=None)
    topic_partitions: list[TopicPartitions] | None = wire([TopicPartitions], nullable=0, default=None)


@struct
class ResponseTopicPartitions(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class Assignment(Struct):
    topic_partitions: list[ResponseTopicPartitions] = wire([ResponseTopicPartitions])


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse(Message):
    """Kafka's ConsumerGroupHeartbeatResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    member_id: str | None = wire("string", nullable=0, default=None)
    member_epoch: int = wire("int32")
    heartbeat_interval_ms: int = wire("int32")
    assignment: Assignment | None = wire(Assignment, nullable=0, default=None)
