"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest(Message):
    """Kafka's AllocateProducerIdsRequest, versions 0 to 0."""

    broker_id: int = wire("int32", entity="brokerId")
    broker_epoch: int = wire("int64", default=-1)


@message(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse(Message):
    """Kafka's AllocateProducerIdsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    producer_id_start: int = wire("int64", entity="producerId")
    producer_id_len: int = wire("int32")
