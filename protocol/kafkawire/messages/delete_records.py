"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DeleteRecordsPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    offset: int = wire("int64")


@struct
class DeleteRecordsTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[DeleteRecordsPartition] = wire([DeleteRecordsPartition])


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest(Message):
    """Kafka's DeleteRecordsRequest, versions 0 to 2."""

    topics: list[DeleteRecordsTopic] = wire([DeleteRecordsTopic])
    timeout_ms: int = wire("int32")


@struct
class DeleteRecordsPartitionResult(Struct):
    partition_index: int = wire("int32", entity="partition")
    low_watermark: int = wire("int64")
    error_code: int = wire("int16", entity="errorCode")


@struct
class DeleteRecordsTopicResult(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[DeleteRecordsPartitionResult] = wire([DeleteRecordsPartitionResult])


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse(Message):
    """Kafka's DeleteRecordsResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[DeleteRecordsTopicResult] = wire([DeleteRecordsTopicResult])
