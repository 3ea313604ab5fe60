"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicRequest(Struct):
    name: str = wire("string", entity="topicName")
    partition_indexes: list[int] = wire(["int32"], entity="partition")


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest(Message):
    """Kafka's DescribeProducersRequest, versions 0 to 0."""

    topics: list[TopicRequest] = wire([TopicRequest])


@struct
class ProducerState(Struct):
    producer_id: int = wire("int64", entity="producerId")
    producer_epoch: int = wire("int32")
    last_sequence: int = wire("int32", default=-1)
    last_timestamp: int = wire("int64", default=-1)
    coordinator_epoch: int = wire("int32")
    current_txn_start_offset: int = wire("int64", default=-1)


@struct
class PartitionResponse(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    active_producers: list[ProducerState] = wire([ProducerState])


@struct
class TopicResponse(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[PartitionResponse] = wire([PartitionResponse])


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse(Message):
    """Kafka's DescribeProducersResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[TopicResponse] = wire([TopicResponse])
