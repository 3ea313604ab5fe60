"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class ReassignablePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    replicas: list[int] | None = wire(["int32"], nullable=0, entity="brokerId", default=None)


@struct
class ReassignableTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[ReassignablePartition] = wire([ReassignablePartition])


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest(Message):
    """Kafka's AlterPartitionReassignmentsRequest, versions 0 to 1."""

    timeout_ms: int = wire("int32", default=60000)
    allow_replication_factor_change: bool = wire("bool", since=1, default=True)
    topics: list[ReassignableTopic] = wire([ReassignableTopic])


@struct
class ReassignablePartitionResponse(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)


@struct
class ReassignableTopicResponse(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[ReassignablePartitionResponse] = wire([ReassignablePartitionResponse])


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse(Message):
    """Kafka's AlterPartitionReassignmentsResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    allow_replication_factor_change: bool = wire("bool", since=1, default=True)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    responses: list[ReassignableTopicResponse] = wire([ReassignableTopicResponse])
