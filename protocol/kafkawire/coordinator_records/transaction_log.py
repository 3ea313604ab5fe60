"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=0, versions=(0, 0))
class TransactionLogKey(Message):
    """Kafka's TransactionLogKey, versions 0 to 0."""

    transactional_id: str = wire("string", until=0, default="")


@struct
class PartitionsSchema(Struct):
    topic: str = wire("string")
    partition_ids: list[int] = wire(["int32"])


@message(key=0, versions=(0, 1), flexible=1)
class TransactionLogValue(Message):
    """Kafka's TransactionLogValue, versions 0 to 1."""

    producer_id: int = wire("int64")
    previous_producer_id: int = wire("int64", since=1, tag=0, default=-1)
    next_producer_id: int = wire("int64", since=1, tag=1, default=-1)
    producer_epoch: int = wire("int16", entity="producerEpoch")
    next_producer_epoch: int = wire("int16", since=1, tag=3, default=-1)
    transaction_timeout_ms: int = wire("int32")
    transaction_status: int = wire("int8")
    transaction_partitions: list[PartitionsSchema] | None = wire([PartitionsSchema], nullable=0)
    transaction_last_update_timestamp_ms: int = wire("int64")
    transaction_start_timestamp_ms: int = wire("int64")
    client_transaction_version: int = wire("int16", since=1, tag=2, default=0)
