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


@message(key=1, versions=(0, 0), flexible=0)
class RemoteLogSegmentMetadataUpdateRecord(Message):
    """Kafka's RemoteLogSegmentMetadataUpdateRecord, versions 0 to 0."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = wire(RemoteLogSegmentIdEntry)
    broker_id: int = wire("int32")
    event_timestamp_ms: int = wire("int64")
    custom_metadata: bytes | None = wire("bytes", nullable=0, default=None)
    remote_log_segment_state: int = wire("int8")
