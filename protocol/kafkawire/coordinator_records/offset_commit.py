"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=1, versions=(0, 0))
class OffsetCommitKey(Message):
    """Kafka's OffsetCommitKey, versions 0 to 0."""

    group: str = wire("string", until=0, default="")
    topic: str = wire("string", until=0, default="")
    partition: int = wire("int32", until=0, default=0)


@message(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue(Message):
    """Kafka's OffsetCommitValue, versions 0 to 4."""

    offset: int = wire("int64")
    leader_epoch: int = wire("int32", since=3, default=-1)
    metadata: str = wire("string")
    commit_timestamp: int = wire("int64")
    expire_timestamp: int = wire("int64", since=1, until=1, default=-1)
    topic_id: bytes = wire("uuid", since=4, tag=0, default=bytes(16))
