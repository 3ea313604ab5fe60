"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    replica_epoch: int = wire("int32")
    replica_id: int = wire("int32", entity="brokerId")
    replica_directory_id: bytes = wire("uuid", since=1, default=bytes(16))
    voter_directory_id: bytes = wire("uuid", since=1, default=bytes(16))
    last_offset_epoch: int = wire("int32")
    last_offset: int = wire("int64")
    pre_vote: bool = wire("bool", since=2, default=False)


@struct
class TopicData(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=52, versions=(0, 2), flexible=0)
class VoteRequest(Message):
    """Kafka's VoteRequest, versions 0 to 2."""

    cluster_id: str | None = wire("string", nullable=0, default=None)
    voter_id: int = wire("int32", since=1, entity="brokerId", default=-1)
    topics: list[TopicData] = wire([TopicData])


@struct
class ResponsePartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")
    vote_granted: bool = wire("bool")


@struct
class ResponseTopicData(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[ResponsePartitionData] = wire([ResponsePartitionData])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", since=1, entity="brokerId", default=0)
    host: str = wire("string", since=1, default="")
    port: int = wire("uint16", since=1, default=0)


@message(key=52, versions=(0, 2), flexible=0)
class VoteResponse(Message):
    """Kafka's VoteResponse, versions 0 to 2."""

    error_code: int = wire("int16", entity="errorCode")
    topics: list[ResponseTopicData] = wire([ResponseTopicData])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], since=1, tag=0, default=[])
