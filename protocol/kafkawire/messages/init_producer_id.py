"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest(Message):
    """Kafka's InitProducerIdRequest, versions 0 to 6."""

    transactional_id: str | None = wire("string", nullable=0, entity="transactionalId")
    transaction_timeout_ms: int = wire("int32")
    producer_id: int = wire("int64", since=3, entity="producerId", default=-1)
    producer_epoch: int = wire("int16", since=3, entity="producerEpoch", default=-1)
    enable2_pc: bool = wire("bool", since=6, default=False)
    keep_prepared_txn: bool = wire("bool", since=6, default=False)


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse(Message):
    """Kafka's InitProducerIdResponse, versions 0 to 6."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    producer_id: int = wire("int64", entity="producerId", default=-1)
    producer_epoch: int = wire("int16", entity="producerEpoch")
    ongoing_txn_producer_id: int = wire("int64", since=6, entity="producerId", default=-1)
    ongoing_txn_producer_epoch: int = wire("int16", since=6, default=-1)
