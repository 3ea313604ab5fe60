"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class StateBatch(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    delivery_count: int = wire("int16")


@struct
class PartitionData(Struct):
    partition: int = wire("int32", entity="partition")
    state_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", since=1, default=-1)
    state_batches: list[StateBatch] = wire([StateBatch])


@struct
class WriteStateData(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=85, versions=(0, 1), flexible=0)
class WriteShareGroupStateRequest(Message):
    """Kafka's WriteShareGroupStateRequest, versions 0 to 1."""

    group_id: str = wire("string", entity="groupId")
    topics: list[WriteStateData] = wire([WriteStateData])


@struct
class PartitionResult(Struct):
    partition: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@struct
class WriteStateResult(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionResult] = wire([PartitionResult])


@message(key=85, versions=(0, 1), flexible=0)
class WriteShareGroupStateResponse(Message):
    """Kafka's WriteShareGroupStateResponse, versions 0 to 1."""

    results: list[WriteStateResult] = wire([WriteStateResult])
