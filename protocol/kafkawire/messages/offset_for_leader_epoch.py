"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class OffsetForLeaderPartition(Struct):
    partition: int = wire("int32", entity="partition")
    current_leader_epoch: int = wire("int32", since=2, default=-1)
    leader_epoch: int = wire("int32")


@struct
class OffsetForLeaderTopic(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[OffsetForLeaderPartition] = wire([OffsetForLeaderPartition])


@message(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest(Message):
    """Kafka's OffsetForLeaderEpochRequest, versions 0 to 4."""

    replica_id: int = wire("int32", since=3, entity="brokerId", default=-2)
    topics: list[OffsetForLeaderTopic] = wire([OffsetForLeaderTopic])


@struct
class EpochEndOffset(Struct):
    error_code: int = wire("int16", entity="errorCode")
    partition: int = wire("int32", entity="partition")
    leader_epoch: int = wire("int32", since=1, default=-1)
    end_offset: int = wire("int64", default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[EpochEndOffset] = wire([EpochEndOffset])


@message(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochResponse(Message):
    """Kafka's OffsetForLeaderEpochResponse, versions 0 to 4."""

    throttle_time_ms: int = wire("int32", since=2, default=0)
    topics: list[OffsetForLeaderTopicResult] = wire([OffsetForLeaderTopicResult])
