"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")


@struct
class TopicData(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest(Message):
    """Kafka's DescribeQuorumRequest, versions 0 to 2."""

    topics: list[TopicData] = wire([TopicData])


@struct
class ReplicaState(Struct):
    replica_id: int = wire("int32", entity="brokerId")
    replica_directory_id: bytes = wire("uuid", since=2, default=bytes(16))
    log_end_offset: int = wire("int64")
    last_fetch_timestamp: int = wire("int64", since=1, default=-1)
    last_caught_up_timestamp: int = wire("int64", since=1, default=-1)


@struct
class ResponsePartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", since=2, nullable=2, default="")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")
    high_watermark: int = wire("int64")
    current_voters: list[ReplicaState] = wire([ReplicaState])
    observers: list[ReplicaState] = wire([ReplicaState])


@struct
class ResponseTopicData(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[ResponsePartitionData] = wire([ResponsePartitionData])


@struct
class Listener(Struct):
    name: str = wire("string", since=2, default="")
    host: str = wire("string", since=2, default="")
    port: int = wire("uint16", since=2, default=0)


@struct
class Node(Struct):
    node_id: int = wire("int32", since=2, entity="brokerId", default=0)
    listeners: list[Listener] = wire([Listener], since=2, default=[])


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumResponse(Message):
    """Kafka's DescribeQuorumResponse, versions 0 to 2."""

    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", since=2, nullable=2, default="")
    topics: list[ResponseTopicData] = wire([ResponseTopicData])
    nodes: list[Node] = wire([Node], since=2, default=[])
