"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")


@struct
class TopicData(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@struct
class DirectoryData(Struct):
    id: bytes = wire("uuid")
    topics: list[TopicData] = wire([TopicData])


@message(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsRequest(Message):
    """Kafka's AssignReplicasToDirsRequest, versions 0 to 0."""

    broker_id: int = wire("int32", entity="brokerId")
    broker_epoch: int = wire("int64", default=-1)
    directories: list[DirectoryData] = wire([DirectoryData])


@struct
class ResponsePartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class ResponseTopicData(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[ResponsePartitionData] = wire([ResponsePartitionData])


@struct
class ResponseDirectoryData(Struct):
    id: bytes = wire("uuid")
    topics: list[ResponseTopicData] = wire([ResponseTopicData])


@message(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsResponse(Message):
    """Kafka's AssignReplicasToDirsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    directories: list[ResponseDirectoryData] = wire([ResponseDirectoryData])
