"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class ListPartitionReassignmentsTopics(Struct):
    name: str = wire("string", entity="topicName")
    partition_indexes: list[int] = wire(["int32"], entity="partition")


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Message):
    """Kafka's ListPartitionReassignmentsRequest, versions 0 to 0."""

    timeout_ms: int = wire("int32", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = wire([ListPartitionReassignmentsTopics], nullable=0, default=None)


@struct
class OngoingPartitionReassignment(Struct):
    partition_index: int = wire("int32", entity="partition")
    replicas: list[int] = wire(["int32"], entity="brokerId")
    adding_replicas: list[int] = wire(["int32"], entity="brokerId")
    removing_replicas: list[int] = wire(["int32"], entity="brokerId")


@struct
class OngoingTopicReassignment(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[OngoingPartitionReassignment] = wire([OngoingPartitionReassignment])


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Message):
    """Kafka's ListPartitionReassignmentsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    topics: list[OngoingTopicReassignment] = wire([OngoingTopicReassignment])
