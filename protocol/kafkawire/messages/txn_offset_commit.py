"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    committed_offset: int = wire("int64")
    committed_leader_epoch: int = wire("int32", since=2, default=-1)
    committed_metadata: str | None = wire("string", nullable=0)


@struct
class TxnOffsetCommitRequestTopic(Struct):
    name: str = wire("string", until=5, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=6, entity="topicId", default=bytes(16))
    partitions: list[TxnOffsetCommitRequestPartition] = wire([TxnOffsetCommitRequestPartition])


@message(key=28, versions=(0, 6), flexible=3)
class TxnOffsetCommitRequest(Message):
    """Kafka's TxnOffsetCommitRequest, versions 0 to 6."""

    transactional_id: str = wire("string", entity="transactionalId")
    group_id: str = wire("string", entity="groupId")
    producer_id: int = wire("int64", entity="producerId")
    producer_epoch: int = wire("int16", entity="producerEpoch")
    generation_id: int = wire("int32", since=3, default=-1)
    member_id: str = wire("string", since=3, default="")
    group_instance_id: str | None = wire("string", since=3, nullable=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire([TxnOffsetCommitRequestTopic])


@struct
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class TxnOffsetCommitResponseTopic(Struct):
    name: str = wire("string", until=5, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=6, entity="topicId", default=bytes(16))
    partitions: list[TxnOffsetCommitResponsePartition] = wire([TxnOffsetCommitResponsePartition])


@message(key=28, versions=(0, 6), flexible=3)
class TxnOffsetCommitResponse(Message):
    """Kafka's TxnOffsetCommitResponse, versions 0 to 6."""

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[TxnOffsetCommitResponseTopic] = wire([TxnOffsetCommitResponseTopic])
