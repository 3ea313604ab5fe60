"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class PartitionData(Struct):
    partition: int = wire("int32", entity="partition")
    leader_epoch: int = wire("int32")


@struct
class ReadStateSummaryData(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=87, versions=(0, 1), flexible=0)
class ReadShareGroupStateSummaryRequest(Message):
    """Kafka's ReadShareGroupStateSummaryRequest, versions 0 to 1."""

    group_id: str = wire("string", entity="groupId")
    topics: list[ReadStateSummaryData] = wire([ReadStateSummaryData])


@struct
class PartitionResult(Struct):
    partition: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    state_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", since=1, default=-1)


@struct
class ReadStateSummaryResult(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionResult] = wire([PartitionResult])


@message(key=87, versions=(0, 1), flexible=0)
class ReadShareGroupStateSummaryResponse(Message):
    """Kafka's ReadShareGroupStateSummaryResponse, versions 0 to 1."""

    results: list[ReadStateSummaryResult] = wire([ReadStateSummaryResult])
