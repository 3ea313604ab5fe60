"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = wire("string", entity="groupId")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = wire([DescribeShareGroupOffsetsRequestTopic], nullable=0)


@message(key=90, versions=(0, 1), flexible=0)
class DescribeShareGroupOffsetsRequest(Message):
    """Kafka's DescribeShareGroupOffsetsRequest, versions 0 to 1."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = wire([DescribeShareGroupOffsetsRequestGroup])


@struct
class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    start_offset: int = wire("int64")
    leader_epoch: int = wire("int32")
    lag: int = wire("int64", since=1, default=-1)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = wire("string", entity="topicName")
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = wire([DescribeShareGroupOffsetsResponsePartition])


@struct
class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = wire("string", entity="groupId")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = wire([DescribeShareGroupOffsetsResponseTopic])
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@message(key=90, versions=(0, 1), flexible=0)
class DescribeShareGroupOffsetsResponse(Message):
    """Kafka's DescribeShareGroupOffsetsResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = wire([DescribeShareGroupOffsetsResponseGroup])
