"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicRequest(Struct):
    name: str = wire("string", entity="topicName")


@struct
class Cursor(Struct):
    topic_name: str = wire("string", entity="topicName")
    partition_index: int = wire("int32", entity="partition")


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest(Message):
    """Kafka's DescribeTopicPartitionsRequest, versions 0 to 0."""

    topics: list[TopicRequest] = wire([TopicRequest])
    response_partition_limit: int = wire("int32", default=2000)
    cursor: Cursor | None = wire(Cursor, nullable=0, default=None)


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = wire("int16", entity="errorCode")
    partition_index: int = wire("int32", entity="partition")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32", default=-1)
    replica_nodes: list[int] = wire(["int32"], entity="brokerId")
    isr_nodes: list[int] = wire(["int32"], entity="brokerId")
    eligible_leader_replicas: list[int] | None = wire(["int32"], nullable=0, entity="brokerId", default=None)
    last_known_elr: list[int] | None = wire(["int32"], nullable=0, entity="brokerId", default=None)
    offline_replicas: list[int] = wire(["int32"], entity="brokerId")


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = wire("int16", entity="errorCode")
    name: str | None = wire("string", nullable=0, entity="topicName")
    topic_id: bytes = wire("uuid", entity="topicId")
    is_internal: bool = wire("bool", default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire([DescribeTopicPartitionsResponsePartition])
    topic_authorized_operations: int = wire("int32", default=-2147483648)


@struct
class ResponseCursor(Struct):
    topic_name: str = wire("string", entity="topicName")
    partition_index: int = wire("int32", entity="partition")


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse(Message):
    """Kafka's DescribeTopicPartitionsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = wire([DescribeTopicPartitionsResponseTopic])
    next_cursor: ResponseCursor | None = wire(ResponseCursor, nullable=0, default=None)
