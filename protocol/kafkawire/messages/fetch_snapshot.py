"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire
from kafkawire.primitives import Buffer


@struct
class SnapshotId(Struct):
    end_offset: int = wire("int64")
    epoch: int = wire("int32")


@struct
class PartitionSnapshot(Struct):
    partition: int = wire("int32", entity="partition")
    current_leader_epoch: int = wire("int32")
    snapshot_id: SnapshotId = wire(SnapshotId)
    position: int = wire("int64")
    replica_directory_id: bytes = wire("uuid", since=1, tag=0, default=bytes(16))


@struct
class TopicSnapshot(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[PartitionSnapshot] = wire([PartitionSnapshot])


@message(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotRequest(Message):
    """Kafka's FetchSnapshotRequest, versions 0 to 1."""

    cluster_id: str | None = wire("string", nullable=0, tag=0, default=None)
    replica_id: int = wire("int32", entity="brokerId", default=-1)
    max_bytes: int = wire("int32", default=2147483647)
    topics: list[TopicSnapshot] = wire([TopicSnapshot])


@struct
class ResponseSnapshotId(Struct):
    end_offset: int = wire("int64")
    epoch: int = wire("int32")


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")


@struct
class ResponsePartitionSnapshot(Struct):
    index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    snapshot_id: ResponseSnapshotId = wire(ResponseSnapshotId)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, tag=0, default=LeaderIdAndEpoch)
    size: int = wire("int64")
    position: int = wire("int64")
    unaligned_records: Buffer | None = wire("records")


@struct
class ResponseTopicSnapshot(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[ResponsePartitionSnapshot] = wire([ResponsePartitionSnapshot])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", since=1, entity="brokerId", default=0)
    host: str = wire("string", since=1, default="")
    port: int = wire("uint16", since=1, default=0)


@message(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotResponse(Message):
    """Kafka's FetchSnapshotResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    topics: list[ResponseTopicSnapshot] = wire([ResponseTopicSnapshot])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], since=1, tag=0, default=[])
