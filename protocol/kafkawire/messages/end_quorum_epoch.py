"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class ReplicaInfo(Struct):
    candidate_id: int = wire("int32", since=1, entity="brokerId", default=0)
    candidate_directory_id: bytes = wire("uuid", since=1, default=bytes(16))


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")
    preferred_successors: list[int] = wire(["int32"], until=0, default=[])
    preferred_candidates: list[ReplicaInfo] = wire([ReplicaInfo], since=1, default=[])


@struct
class TopicData(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[PartitionData] = wire([PartitionData])


@struct
class LeaderEndpoint(Struct):
    name: str = wire("string", since=1, default="")
    host: str = wire("string", since=1, default="")
    port: int = wire("uint16", since=1, default=0)


@message(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochRequest(Message):
    """Kafka's EndQuorumEpochRequest, versions 0 to 1."""

    cluster_id: str | None = wire("string", nullable=0, default=None)
    topics: list[TopicData] = wire([TopicData])
    leader_endpoints: list[LeaderEndpoint] = wire([LeaderEndpoint], since=1, default=[])


@struct
class ResponsePartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")


@struct
class ResponseTopicData(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[ResponsePartitionData] = wire([ResponsePartitionData])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", since=1, entity="brokerId", default=0)
    host: str = wire("string", since=1, default="")
    port: int = wire("uint16", since=1, default=0)


@message(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochResponse(Message):
    """Kafka's EndQuorumEpochResponse, versions 0 to 1."""

    error_code: int = wire("int16", entity="errorCode")
    topics: list[ResponseTopicData] = wire([ResponseTopicData])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], since=1, tag=0, default=[])
