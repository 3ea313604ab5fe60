"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class OffsetDeleteRequestPartition(Struct):
    partition_index: int = wire("int32", entity="partition")


@struct
class OffsetDeleteRequestTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[OffsetDeleteRequestPartition] = wire([OffsetDeleteRequestPartition])


@message(key=47, versions=(0, 0))
class OffsetDeleteRequest(Message):
    """Kafka's OffsetDeleteRequest, versions 0 to 0."""

    group_id: str = wire("string", entity="groupId")
    topics: list[OffsetDeleteRequestTopic] = wire([OffsetDeleteRequestTopic])


@struct
class OffsetDeleteResponsePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class OffsetDeleteResponseTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[OffsetDeleteResponsePartition] = wire([OffsetDeleteResponsePartition])


@message(key=47, versions=(0, 0))
class OffsetDeleteResponse(Message):
    """Kafka's OffsetDeleteResponse, versions 0 to 0."""

    error_code: int = wire("int16", entity="errorCode")
    throttle_time_ms: int = wire("int32", default=0)
    topics: list[OffsetDeleteResponseTopic] = wire([OffsetDeleteResponseTopic])
