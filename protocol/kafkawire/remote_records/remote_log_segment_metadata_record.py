"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicIdPartitionEntry(Struct):
    name: str = wire("string")
    id: bytes = wire("uuid")
    partition: int = wire("int32", entity="partition")


@struct
class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = wire(TopicIdPartitionEntry)
    id: bytes = wire("uuid")


@struct
class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int = wire("int32")
    offset: int = wire("int64")


@message(key=0, versions=(0, 0), flexible=0)
class RemoteLogSegmentMetadataRecord(Message):
    """Kafka's RemoteLogSegmentMetadataRecord, versions 0 to 0."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = wire(RemoteLogSegmentIdEntry)
    start_offset: int = wire("int64")
    end_offset: int = wire("int64")
    broker_id: int = wire("int32")
    max_timestamp_ms: int = wire("int64")
    event_timestamp_ms: int = wire("int64")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = wire([SegmentLeaderEpochEntry])
    segment_size_in_bytes: int = wire("int32")
    custom_metadata: bytes | None = wire("bytes", nullable=0, default=None)
    remote_log_segment_state: int = wire("int8")
    txn_index_empty: bool = wire("bool", tag=0, default=False)
