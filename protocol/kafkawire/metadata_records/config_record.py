"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=4, versions=(0, 0), flexible=0)
class ConfigRecord(Message):
    """Kafka's ConfigRecord, versions 0 to 0."""

    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    name: str = wire("string")
    value: str | None = wire("string", nullable=0)
