"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class ListOffsetsPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    current_leader_epoch: int = wire("int32", since=4, default=-1)
    timestamp: int = wire("int64")
    max_num_offsets: int = wire("int32", until=0, default=1)


@struct
class ListOffsetsTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[ListOffsetsPartition] = wire([ListOffsetsPartition])


@message(key=2, versions=(0, 11), flexible=6)
class ListOffsetsRequest(Message):
    """Kafka's ListOffsetsRequest, versions 0 to 11."""

    replica_id: int = wire("int32", entity="brokerId")
    isolation_level: int = wire("int8", since=2, default=0)
    topics: list[ListOffsetsTopic] = wire([ListOffsetsTopic])
    timeout_ms: int = wire("int32", since=10, default=0)


@struct
class ListOffsetsPartitionResponse(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    old_style_offsets: list[int] = wire(["int64"], until=0, default=[])
    timestamp: int = wire("int64", since=1, default=-1)
    offset: int = wire("int64", since=1, default=-1)
    leader_epoch: int = wire("int32", since=4, default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[ListOffsetsPartitionResponse] = wire([ListOffsetsPartitionResponse])


@message(key=2, versions=(0, 11), flexible=6)
class ListOffsetsResponse(Message):
    """Kafka's ListOffsetsResponse, versions 0 to 11."""

    throttle_time_ms: int = wire("int32", since=2, default=0)
    topics: list[ListOffsetsTopicResponse] = wire([ListOffsetsTopicResponse])
