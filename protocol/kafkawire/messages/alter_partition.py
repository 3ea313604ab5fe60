"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class BrokerState(Struct):
    broker_id: int = wire("int32", since=3, entity="brokerId", default=0)
    broker_epoch: int = wire("int64", since=3, default=-1)


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    leader_epoch: int = wire("int32")
    new_isr: list[int] = wire(["int32"], until=2, entity="brokerId", default=[])
    new_isr_with_epochs: list[BrokerState] = wire([BrokerState], since=3, default=[])
    leader_recovery_state: int = wire("int8", since=1, default=0)
    partition_epoch: int = wire("int32")


@struct
class TopicData(Struct):
    topic_name: str = wire("string", until=1, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=2, entity="topicId", default=bytes(16))
    partitions: list[PartitionData] = wire([PartitionData])


@message(key=56, versions=(0, 3), flexible=0)
class AlterPartitionRequest(Message):
    """Kafka's AlterPartitionRequest, versions 0 to 3."""

    broker_id: int = wire("int32", entity="brokerId")
    broker_epoch: int = wire("int64", default=-1)
    topics: list[TopicData] = wire([TopicData])


@struct
class ResponsePartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")
    isr: list[int] = wire(["int32"], entity="brokerId")
    leader_recovery_state: int = wire("int8", since=1, default=0)
    partition_epoch: int = wire("int32")


@struct
class ResponseTopicData(Struct):
    topic_name: str = wire("string", until=1, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=2, entity="topicId", default=bytes(16))
    partitions: list[ResponsePartitionData] = wire([ResponsePartitionData])


@message(key=56, versions=(0, 3), flexible=0)
class AlterPartitionResponse(Message):
    """Kafka's AlterPartitionResponse, versions 0 to 3."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    topics: list[ResponseTopicData] = wire([ResponseTopicData])
