"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = wire("string", entity="topicName")


@message(key=92, versions=(0, 0), flexible=0)
class DeleteShareGroupOffsetsRequest(Message):
    """Kafka's DeleteShareGroupOffsetsRequest, versions 0 to 0."""

    group_id: str = wire("string", entity="groupId")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = wire([DeleteShareGroupOffsetsRequestTopic])


@struct
class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = wire("string", entity="topicName")
    topic_id: bytes = wire("uuid", entity="topicId")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@message(key=92, versions=(0, 0), flexible=0)
class DeleteShareGroupOffsetsResponse(Message):
    """Kafka's DeleteShareGroupOffsetsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = wire([DeleteShareGroupOffsetsResponseTopic])
