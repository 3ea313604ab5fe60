"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class OffsetFetchRequestTopic(Struct):
    name: str = wire("string", until=7, entity="topicName", default="")
    partition_indexes: list[int] = wire(["int32"], until=7, entity="partition", default=[])


@struct
class OffsetFetchRequestTopics(Struct):
    name: str = wire("string", since=8, until=9, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=10, entity="topicId", default=bytes(16))
    partition_indexes: list[int] = wire(["int32"], since=8, entity="partition", default=[])


@struct
class OffsetFetchRequestGroup(Struct):
    group_id: str = wire("string", since=8, entity="groupId", default="")
    member_id: str | None = wire("string", since=9, nullable=9, default=None)
    member_epoch: int = wire("int32", since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = wire([OffsetFetchRequestTopics], since=8, nullable=8, default=[])


@message(key=9, versions=(0, 10), flexible=6)
class OffsetFetchRequest(Message):
    """Kafka's OffsetFetchRequest, versions 0 to 10."""

    group_id: str = wire("string", until=7, entity="groupId", default="")
    topics: list[OffsetFetchRequestTopic] | None = wire([OffsetFetchRequestTopic], until=7, nullable=2, nullable_until=7, default=[])
    groups: list[OffsetFetchRequestGroup] = wire([OffsetFetchRequestGroup], since=8, default=[])
    require_stable: bool = wire("bool", since=7, default=False)


@struct
class OffsetFetchResponsePartition(Struct):
    partition_index: int = wire("int32", until=7, entity="partition", default=0)
    committed_offset: int = wire("int64", until=7, default=0)
    committed_leader_epoch: int = wire("int32", since=5, until=7, default=-1)
    metadata: str | None = wire("string", until=7, nullable=0, nullable_until=7, default="")
    error_code: int = wire("int16", until=7, entity="errorCode", default=0)


@struct
class OffsetFetchResponseTopic(Struct):
    name: str = wire("string", until=7, entity="topicName", default="")
    partitions: list[OffsetFetchResponsePartition] = wire([OffsetFetchResponsePartition], until=7, default=[])


@struct
class OffsetFetchResponsePartitions(Struct):
    partition_index: int = wire("int32", since=8, entity="partition", default=0)
    committed_offset: int = wire("int64", since=8, default=0)
    committed_leader_epoch: int = wire("int32", since=8, default=-1)
    metadata: str | None = wire("string", since=8, nullable=8, default="")
    error_code: int = wire("int16", since=8, entity="errorCode", default=0)


@struct
class OffsetFetchResponseTopics(Struct):
    name: str = wire("string", since=8, until=9, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=10, entity="topicId", default=bytes(16))
    partitions: list[OffsetFetchResponsePartitions] = wire([OffsetFetchResponsePartitions], since=8, default=[])


@struct
class OffsetFetchResponseGroup(Struct):
    group_id: str = wire("string", since=8, entity="groupId", default="")
    topics: list[OffsetFetchResponseTopics] = wire([OffsetFetchResponseTopics], since=8, default=[])
    error_code: int = wire("int16", since=8, entity="errorCode", default=0)


@message(key=9, versions=(0, 10), flexible=6)
class OffsetFetchResponse(Message):
    """Kafka's OffsetFetchResponse, versions 0 to 10."""

    throttle_time_ms: int = wire("int32", since=3, default=0)
    topics: list[OffsetFetchResponseTopic] = wire([OffsetFetchResponseTopic], until=7, default=[])
    error_code: int = wire("int16", since=2, until=7, entity="errorCode", default=0)
    groups: list[OffsetFetchResponseGroup] = wire([OffsetFetchResponseGroup], since=8, default=[])
