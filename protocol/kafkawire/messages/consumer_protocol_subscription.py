"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopicPartition(Struct):
    topic: str = wire("string", since=1, entity="topicName", default="")
    partitions: list[int] = wire(["int32"], since=1, entity="partition", default=[])


@message(versions=(0, 3))
class ConsumerProtocolSubscription(Message):
    """Kafka's ConsumerProtocolSubscription, versions 0 to 3."""

    topics: list[str] = wire(["string"])
    user_data: bytes | None = wire("bytes", nullable=0, default=None)
    owned_partitions: list[TopicPartition] = wire([TopicPartition], since=1, default=[])
    generation_id: int = wire("int32", since=2, default=-1)
    rack_id: str | None = wire("string", since=3, nullable=3, default=None)
