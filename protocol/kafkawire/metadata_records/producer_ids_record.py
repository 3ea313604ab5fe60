"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord(Message):
    """Kafka's ProducerIdsRecord, versions 0 to 0."""

    broker_id: int = wire("int32", entity="brokerId")
    broker_epoch: int = wire("int64", default=-1)
    next_producer_id: int = wire("int64")
