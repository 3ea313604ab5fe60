"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=0, versions=(0, 0))
class ShareSnapshotKey(Message):
    """Kafka's ShareSnapshotKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    topic_id: bytes = wire("uuid", until=0, entity="topicId", default=bytes(16))
    partition: int = wire("int32", until=0, entity="partition", default=0)


@struct
class StateBatch(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    delivery_count: int = wire("int16")


@message(key=0, versions=(0, 0), flexible=0)
class ShareSnapshotValue(Message):
    """Kafka's ShareSnapshotValue, versions 0 to 0."""

    snapshot_epoch: int = wire("int32")
    state_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", tag=0, default=-1)
    create_timestamp: int = wire("int64")
    write_timestamp: int = wire("int64")
    state_batches: list[StateBatch] = wire([StateBatch])
