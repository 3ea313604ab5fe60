"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicIdPartitionEntry(Struct):
    name: str = wire("string")
    id: bytes = wire("uuid")
    partition: int = wire("int32", entity="partition")


@message(key=2, versions=(0, 0), flexible=0)
class RemotePartitionDeleteMetadataRecord(Message):
    """Kafka's RemotePartitionDeleteMetadataRecord, versions 0 to 0."""

    topic_id_partition: TopicIdPartitionEntry = wire(TopicIdPartitionEntry)
    broker_id: int = wire("int32")
    event_timestamp_ms: int = wire("int64")
    remote_partition_delete_state: int = wire("int8")
