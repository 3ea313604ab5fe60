"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DeleteTopicState(Struct):
    name: str | None = wire("string", since=6, nullable=6, entity="topicName", default=None)
    topic_id: bytes = wire("uuid", since=6, entity="topicId", default=bytes(16))


@message(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsRequest(Message):
    """Kafka's DeleteTopicsRequest, versions 0 to 6."""

    topics: list[DeleteTopicState] = wire([DeleteTopicState], since=6, default=[])
    topic_names: list[str] = wire(["string"], until=5, entity="topicName", default=[])
    timeout_ms: int = wire("int32")


@struct
class DeletableTopicResult(Struct):
    name: str | None = wire("string", nullable=6, entity="topicName")
    topic_id: bytes = wire("uuid", since=6, entity="topicId", default=bytes(16))
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", since=5, nullable=5, default=None)


@message(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsResponse(Message):
    """Kafka's DeleteTopicsResponse, versions 0 to 6."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    responses: list[DeletableTopicResult] = wire([DeletableTopicResult])
