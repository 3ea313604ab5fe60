"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class OffsetCommitRequestPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    committed_offset: int = wire("int64")
    commit_timestamp: int = wire("int64", since=1, until=1, default=-1)
    committed_leader_epoch: int = wire("int32", since=6, default=-1)
    committed_metadata: str | None = wire("string", nullable=0)


@struct
class OffsetCommitRequestTopic(Struct):
    name: str = wire("string", until=9, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=10, entity="topicId", default=bytes(16))
    partitions: list[OffsetCommitRequestPartition] = wire([OffsetCommitRequestPartition])


@message(key=8, versions=(0, 10), flexible=8)
class OffsetCommitRequest(Message):
    """Kafka's OffsetCommitRequest, versions 0 to 10."""

    group_id: str = wire("string", entity="groupId")
    generation_id_or_member_epoch: int = wire("int32", since=1, default=-1)
    member_id: str = wire("string", since=1, default="")
    group_instance_id: str | None = wire("string", since=7, nullable=7, default=None)
    retention_time_ms: int = wire("int64", since=2, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = wire([OffsetCommitRequestTopic])


@struct
class OffsetCommitResponsePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class OffsetCommitResponseTopic(Struct):
    name: str = wire("string", until=9, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=10, entity="topicId", default=bytes(16))
    partitions: list[OffsetCommitResponsePartition] = wire([OffsetCommitResponsePartition])


@message(key=8, versions=(0, 10), flexible=8)
class OffsetCommitResponse(Message):
    """Kafka's OffsetCommitResponse, versions 0 to 10."""

    throttle_time_ms: int = wire("int32", since=3, default=0)
    topics: list[OffsetCommitResponseTopic] = wire([OffsetCommitResponseTopic])
