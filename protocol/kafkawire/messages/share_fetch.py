"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire
from kafkawire.primitives import Buffer


@struct
class AcknowledgementBatch(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    acknowledge_types: list[int] = wire(["int8"])


@struct
class FetchPartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    partition_max_bytes: int = wire("int32", until=0, default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = wire([AcknowledgementBatch])


@struct
class FetchTopic(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[FetchPartition] = wire([FetchPartition])


@struct
class ForgottenTopic(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=78, versions=(1, 2), flexible=0)
class ShareFetchRequest(Message):
    """Kafka's ShareFetchRequest, versions 1 to 2."""

    group_id: str | None = wire("string", nullable=0, entity="groupId", default=None)
    member_id: str | None = wire("string", nullable=0)
    share_session_epoch: int = wire("int32")
    max_wait_ms: int = wire("int32")
    min_bytes: int = wire("int32")
    max_bytes: int = wire("int32", default=2147483647)
    max_records: int = wire("int32", since=1, default=0)
    batch_size: int = wire("int32", since=1, default=0)
    share_acquire_mode: int = wire("int8", since=2, default=0)
    is_renew_ack: bool = wire("bool", since=2, default=False)
    topics: list[FetchTopic] = wire([FetchTopic])
    forgotten_topics_data: list[ForgottenTopic] = wire([ForgottenTopic])


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")


@struct
class AcquiredRecords(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_count: int = wire("int16")


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    acknowledge_error_code: int = wire("int16")
    acknowledge_error_message: str | None = wire("string", nullable=0, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)
    records: Buffer | None = wire("records", nullable=0, nullable_until=0)
    acquired_records: list[AcquiredRecords] = wire([AcquiredRecords])


@struct
class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", entity="brokerId")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", nullable=0, default=None)


@message(key=78, versions=(1, 2), flexible=0)
class ShareFetchResponse(Message):
    """Kafka's ShareFetchResponse, versions 1 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    acquisition_lock_timeout_ms: int = wire("int32", since=1, default=0)
    responses: list[ShareFetchableTopicResponse] = wire([ShareFetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint])
