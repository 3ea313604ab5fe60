"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicPartition(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(versions=(0, 3))
class ConsumerProtocolAssignment(Message):
    """Kafka's ConsumerProtocolAssignment, versions 0 to 3."""

    assigned_partitions: list[TopicPartition] = wire([TopicPartition])
    user_data: bytes | None = wire("bytes", nullable=0, default=None)
