"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicPartitions(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest(Message):
    """Kafka's ElectLeadersRequest, versions 0 to 2."""

    election_type: int = wire("int8", since=1, default=0)
    topic_partitions: list[TopicPartitions] | None = wire([TopicPartitions], nullable=0)
    timeout_ms: int = wire("int32", default=60000)


@struct
class PartitionResult(Struct):
    partition_id: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)


@struct
class ReplicaElectionResult(Struct):
    topic: str = wire("string", entity="topicName")
    partition_result: list[PartitionResult] = wire([PartitionResult])


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse(Message):
    """Kafka's ElectLeadersResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", since=1, entity="errorCode", default=0)
    replica_election_results: list[ReplicaElectionResult] = wire([ReplicaElectionResult])
