"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class AddPartitionsToTxnTopic(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = wire("string", since=4, entity="transactionalId", default="")
    producer_id: int = wire("int64", since=4, entity="producerId", default=0)
    producer_epoch: int = wire("int16", since=4, entity="producerEpoch", default=0)
    verify_only: bool = wire("bool", since=4, default=False)
    topics: list[AddPartitionsToTxnTopic] = wire([AddPartitionsToTxnTopic], since=4, default=[])


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest(Message):
    """Kafka's AddPartitionsToTxnRequest, versions 0 to 5."""

    transactions: list[AddPartitionsToTxnTransaction] = wire([AddPartitionsToTxnTransaction], since=4, default=[])
    v3_and_below_transactional_id: str = wire("string", until=3, entity="transactionalId", default="")
    v3_and_below_producer_id: int = wire("int64", until=3, entity="producerId", default=0)
    v3_and_below_producer_epoch: int = wire("int16", until=3, entity="producerEpoch", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = wire([AddPartitionsToTxnTopic], until=3, default=[])


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = wire("int32", entity="partition")
    partition_error_code: int = wire("int16", entity="errorCode")


@struct
class AddPartitionsToTxnTopicResult(Struct):
    name: str = wire("string", entity="topicName")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = wire([AddPartitionsToTxnPartitionResult])


@struct
class AddPartitionsToTxnResult(Struct):
    transactional_id: str = wire("string", since=4, entity="transactionalId", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = wire([AddPartitionsToTxnTopicResult], since=4, default=[])


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse(Message):
    """Kafka's AddPartitionsToTxnResponse, versions 0 to 5."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", since=4, entity="errorCode", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = wire([AddPartitionsToTxnResult], since=4, default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = wire([AddPartitionsToTxnTopicResult], until=3, default=[])
