"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class AlterReplicaLogDirTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class AlterReplicaLogDir(Struct):
    path: str = wire("string")
    topics: list[AlterReplicaLogDirTopic] = wire([AlterReplicaLogDirTopic])


@message(key=34, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsRequest(Message):
    """Kafka's AlterReplicaLogDirsRequest, versions 0 to 2."""

    dirs: list[AlterReplicaLogDir] = wire([AlterReplicaLogDir])


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = wire("string", entity="topicName")
    partitions: list[AlterReplicaLogDirPartitionResult] = wire([AlterReplicaLogDirPartitionResult])


@message(key=34, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsResponse(Message):
    """Kafka's AlterReplicaLogDirsResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    results: list[AlterReplicaLogDirTopicResult] = wire([AlterReplicaLogDirTopicResult])
