"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest(Message):
    """Kafka's EndTxnRequest, versions 0 to 5."""

    transactional_id: str = wire("string", entity="transactionalId")
    producer_id: int = wire("int64", entity="producerId")
    producer_epoch: int = wire("int16", entity="producerEpoch")
    committed: bool = wire("bool")


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse(Message):
    """Kafka's EndTxnResponse, versions 0 to 5."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    producer_id: int = wire("int64", since=5, entity="producerId", default=-1)
    producer_epoch: int = wire("int16", since=5, entity="producerEpoch", default=-1)
