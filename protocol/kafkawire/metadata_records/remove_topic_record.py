"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord(Message):
    """Kafka's RemoveTopicRecord, versions 0 to 0."""

    topic_id: bytes = wire("uuid", entity="topicId")
