"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire
from kafkawire.primitives import Buffer


@struct
class ReplicaState(Struct):
    replica_id: int = wire("int32", since=15, entity="brokerId", default=-1)
    replica_epoch: int = wire("int64", since=15, default=-1)


@struct
class FetchPartition(Struct):
    partition: int = wire("int32", entity="partition")
    current_leader_epoch: int = wire("int32", since=9, default=-1)
    fetch_offset: int = wire("int64")
    last_fetched_epoch: int = wire("int32", since=12, default=-1)
    log_start_offset: int = wire("int64", since=5, default=-1)
    partition_max_bytes: int = wire("int32")
    replica_directory_id: bytes = wire("uuid", since=17, tag=0, default=bytes(16))
    high_watermark: int = wire("int64", since=18, tag=1, default=9223372036854775807)


@struct
class FetchTopic(Struct):
    topic: str = wire("string", until=12, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=13, entity="topicId", default=bytes(16))
    partitions: list[FetchPartition] = wire([FetchPartition])


@struct
class ForgottenTopic(Struct):
    topic: str = wire("string", since=7, until=12, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=13, entity="topicId", default=bytes(16))
    partitions: list[int] = wire(["int32"], since=7, entity="partition", default=[])


@message(key=1, versions=(0, 18), flexible=12)
class FetchRequest(Message):
    """Kafka's FetchRequest, versions 0 to 18."""

    cluster_id: str | None = wire("string", since=12, nullable=12, tag=0, default=None)
    replica_id: int = wire("int32", until=14, entity="brokerId", default=-1)
    replica_state: ReplicaState = wire(ReplicaState, since=15, tag=1, default=ReplicaState)
    max_wait_ms: int = wire("int32")
    min_bytes: int = wire("int32")
    max_bytes: int = wire("int32", since=3, default=2147483647)
    isolation_level: int = wire("int8", since=4, default=0)
    session_id: int = wire("int32", since=7, default=0)
    session_epoch: int = wire("int32", since=7, default=-1)
    topics: list[FetchTopic] = wire([FetchTopic])
    forgotten_topics_data: list[ForgottenTopic] = wire([ForgottenTopic], since=7, default=[])
    rack_id: str = wire("string", since=11, default="")


@struct
class EpochEndOffset(Struct):
    epoch: int = wire("int32", since=12, default=-1)
    end_offset: int = wire("int64", since=12, default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: int = wire("int32", since=12, entity="brokerId", default=-1)
    leader_epoch: int = wire("int32", since=12, default=-1)


@struct
class SnapshotId(Struct):
    end_offset: int = wire("int64", since=4, default=-1)
    epoch: int = wire("int32", since=4, default=-1)


@struct
class AbortedTransaction(Struct):
    producer_id: int = wire("int64", since=4, entity="producerId", default=0)
    first_offset: int = wire("int64", since=4, default=0)


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    high_watermark: int = wire("int64")
    last_stable_offset: int = wire("int64", since=4, default=-1)
    log_start_offset: int = wire("int64", since=5, default=-1)
    diverging_epoch: EpochEndOffset = wire(EpochEndOffset, since=12, tag=0, default=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, since=12, tag=1, default=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = wire(SnapshotId, since=12, tag=2, default=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = wire([AbortedTransaction], since=4, nullable=4, default=[])
    preferred_read_replica: int = wire("int32", since=11, entity="brokerId", default=-1)
    records: Buffer | None = wire("records", nullable=0)


@struct
class FetchableTopicResponse(Struct):
    topic: str = wire("string", until=12, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=13, entity="topicId", default=bytes(16))
    partitions: list[PartitionData] = wire([PartitionData])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", since=16, entity="brokerId", default=0)
    host: str = wire("string", since=16, default="")
    port: int = wire("int32", since=16, default=0)
    rack: str | None = wire("string", since=16, nullable=16, default=None)


@message(key=1, versions=(0, 18), flexible=12)
class FetchResponse(Message):
    """Kafka's FetchResponse, versions 0 to 18."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    error_code: int = wire("int16", since=7, entity="errorCode", default=0)
    session_id: int = wire("int32", since=7, default=0)
    responses: list[FetchableTopicResponse] = wire([FetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], since=16, tag=0, default=[])
