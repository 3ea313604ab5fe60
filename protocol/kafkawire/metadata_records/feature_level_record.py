"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord(Message):
    """Kafka's FeatureLevelRecord, versions 0 to 0."""

    name: str = wire("string")
    feature_level: int = wire("int16")
