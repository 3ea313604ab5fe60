"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=1, versions=(0, 0))
class ShareUpdateKey(Message):
    """Kafka's ShareUpdateKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    topic_id: bytes = wire("uuid", until=0, entity="topicId", default=bytes(16))
    partition: int = wire("int32", until=0, entity="partition", default=0)


@struct
class StateBatch(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    delivery_count: int = wire("int16")


@message(key=1, versions=(0, 0), flexible=0)
class ShareUpdateValue(Message):
    """Kafka's ShareUpdateValue, versions 0 to 0."""

    snapshot_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", tag=0, default=-1)
    state_batches: list[StateBatch] = wire([StateBatch])
