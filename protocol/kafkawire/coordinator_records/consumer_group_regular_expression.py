"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=16, versions=(0, 0))
class ConsumerGroupRegularExpressionKey(Message):
    """Kafka's ConsumerGroupRegularExpressionKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    regular_expression: str = wire("string", until=0, default="")


@message(key=16, versions=(0, 0), flexible=0)
class ConsumerGroupRegularExpressionValue(Message):
    """Kafka's ConsumerGroupRegularExpressionValue, versions 0 to 0."""

    topics: list[str] = wire(["string"])
    version: int = wire("int64")
    timestamp: int = wire("int64")
