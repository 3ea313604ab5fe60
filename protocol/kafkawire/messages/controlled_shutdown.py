"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=7, versions=(0, 3), flexible=3)
class ControlledShutdownRequest(Message):
    """Kafka's ControlledShutdownRequest, versions 0 to 3."""

    broker_id: int = wire("int32", entity="brokerId")
    broker_epoch: int = wire("int64", since=2, default=-1)


@struct
class RemainingPartition(Struct):
    topic_name: str = wire("string", entity="topicName")
    partition_index: int = wire("int32", entity="partition")


@message(key=7, versions=(0, 3), flexible=3)
class ControlledShutdownResponse(Message):
    """Kafka's ControlledShutdownResponse, versions 0 to 3."""

    error_code: int = wire("int16", entity="errorCode")
    remaining_partitions: list[RemainingPartition] = wire([RemainingPartition])
