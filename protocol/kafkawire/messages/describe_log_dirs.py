"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DescribableLogDirTopic(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=35, versions=(0, 5), flexible=2)
class DescribeLogDirsRequest(Message):
    """Kafka's DescribeLogDirsRequest, versions 0 to 5."""

    topics: list[DescribableLogDirTopic] | None = wire([DescribableLogDirTopic], nullable=0)


@struct
class DescribeLogDirsPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    partition_size: int = wire("int64")
    offset_lag: int = wire("int64")
    is_future_key: bool = wire("bool")


@struct
class DescribeLogDirsTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[DescribeLogDirsPartition] = wire([DescribeLogDirsPartition])


@struct
class DescribeLogDirsResult(Struct):
    error_code: int = wire("int16", entity="errorCode")
    log_dir: str = wire("string")
    topics: list[DescribeLogDirsTopic] = wire([DescribeLogDirsTopic])
    total_bytes: int = wire("int64", since=4, default=-1)
    usable_bytes: int = wire("int64", since=4, default=-1)
    is_cordoned: bool = wire("bool", since=5, default=False)


@message(key=35, versions=(0, 5), flexible=2)
class DescribeLogDirsResponse(Message):
    """Kafka's DescribeLogDirsResponse, versions 0 to 5."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", since=3, entity="errorCode", default=0)
    results: list[DescribeLogDirsResult] = wire([DescribeLogDirsResult])
