"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest(Message):
    """Kafka's AddOffsetsToTxnRequest, versions 0 to 4."""

    transactional_id: str = wire("string", entity="transactionalId")
    producer_id: int = wire("int64", entity="producerId")
    producer_epoch: int = wire("int16", entity="producerEpoch")
    group_id: str = wire("string", entity="groupId")


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse(Message):
    """Kafka's AddOffsetsToTxnResponse, versions 0 to 4."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
