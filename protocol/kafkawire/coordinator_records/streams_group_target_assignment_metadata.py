"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=20, versions=(0, 0))
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Kafka's StreamsGroupTargetAssignmentMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@message(key=20, versions=(0, 0), flexible=0)
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """Kafka's StreamsGroupTargetAssignmentMetadataValue, versions 0 to 0."""

    assignment_epoch: int = wire("int32")
    assignment_timestamp: int = wire("int64", tag=0, default=0)
