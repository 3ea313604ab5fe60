"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest(Message):
    """Kafka's DescribeTransactionsRequest, versions 0 to 0."""

    transactional_ids: list[str] = wire(["string"], entity="transactionalId")


@struct
class TopicData(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class TransactionState(Struct):
    error_code: int = wire("int16", entity="errorCode")
    transactional_id: str = wire("string", entity="transactionalId")
    transaction_state: str = wire("string")
    transaction_timeout_ms: int = wire("int32")
    transaction_start_time_ms: int = wire("int64")
    producer_id: int = wire("int64", entity="producerId")
    producer_epoch: int = wire("int16", entity="producerEpoch")
    topics: list[TopicData] = wire([TopicData])


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse(Message):
    """Kafka's DescribeTransactionsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    transaction_states: list[TransactionState] = wire([TransactionState])
