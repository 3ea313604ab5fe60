"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    start_offset: int = wire("int64")


@struct
class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = wire([AlterShareGroupOffsetsRequestPartition])


@message(key=91, versions=(0, 0), flexible=0)
class AlterShareGroupOffsetsRequest(Message):
    """Kafka's AlterShareGroupOffsetsRequest, versions 0 to 0."""

    group_id: str = wire("string", entity="groupId")
    topics: list[AlterShareGroupOffsetsRequestTopic] = wire([AlterShareGroupOffsetsRequestTopic])


@struct
class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = wire("string", entity="topicName")
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = wire([AlterShareGroupOffsetsResponsePartition])


@message(key=91, versions=(0, 0), flexible=0)
class AlterShareGroupOffsetsResponse(Message):
    """Kafka's AlterShareGroupOffsetsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = wire([AlterShareGroupOffsetsResponseTopic])
