"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = wire(["int32"], entity="brokerId")


@struct
class CreatePartitionsTopic(Struct):
    name: str = wire("string", entity="topicName")
    count: int = wire("int32")
    assignments: list[CreatePartitionsAssignment] | None = wire([CreatePartitionsAssignment], nullable=0)


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest(Message):
    """Kafka's CreatePartitionsRequest, versions 0 to 3."""

    topics: list[CreatePartitionsTopic] = wire([CreatePartitionsTopic])
    timeout_ms: int = wire("int32")
    validate_only: bool = wire("bool")


@struct
class CreatePartitionsTopicResult(Struct):
    name: str = wire("string", entity="topicName")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse(Message):
    """Kafka's CreatePartitionsResponse, versions 0 to 3."""

    throttle_time_ms: int = wire("int32", default=0)
    results: list[CreatePartitionsTopicResult] = wire([CreatePartitionsTopicResult])
