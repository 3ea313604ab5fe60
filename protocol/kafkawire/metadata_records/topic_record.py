"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=2, versions=(0, 0), flexible=0)
class TopicRecord(Message):
    """Kafka's TopicRecord, versions 0 to 0."""

    name: str = wire("string", entity="topicName")
    topic_id: bytes = wire("uuid", entity="topicId")
