"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class PartitionData(Struct):
    partition: int = wire("int32", entity="partition")
    leader_epoch: int = wire("int32")


@struct
class ReadStateData(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=84, versions=(0, 0), flexible=0)
class ReadShareGroupStateRequest(Message):
    """Kafka's ReadShareGroupStateRequest, versions 0 to 0."""

    group_id: str = wire("string", entity="groupId")
    topics: list[ReadStateData] = wire([ReadStateData])


@struct
class StateBatch(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    delivery_count: int = wire("int16")


@struct
class PartitionResult(Struct):
    partition: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    state_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    state_batches: list[StateBatch] = wire([StateBatch])


@struct
class ReadStateResult(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionResult] = wire([PartitionResult])


@message(key=84, versions=(0, 0), flexible=0)
class ReadShareGroupStateResponse(Message):
    """Kafka's ReadShareGroupStateResponse, versions 0 to 0."""

    results: list[ReadStateResult] = wire([ReadStateResult])
