"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class PartitionData(Struct):
    partition: int = wire("int32", entity="partition")


@struct
class DeleteStateData(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=86, versions=(0, 0), flexible=0)
class DeleteShareGroupStateRequest(Message):
    """Kafka's DeleteShareGroupStateRequest, versions 0 to 0."""

    group_id: str = wire("string", entity="groupId")
    topics: list[DeleteStateData] = wire([DeleteStateData])


@struct
class PartitionResult(Struct):
    partition: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@struct
class DeleteStateResult(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionResult] = wire([PartitionResult])


@message(key=86, versions=(0, 0), flexible=0)
class DeleteShareGroupStateResponse(Message):
    """Kafka's DeleteShareGroupStateResponse, versions 0 to 0."""

    results: list[DeleteStateResult] = wire([DeleteStateResult])
