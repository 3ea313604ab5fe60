"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=19, versions=(0, 0), flexible=0)
class RemoveAccessControlEntryRecord(Message):
    """Kafka's RemoveAccessControlEntryRecord, versions 0 to 0."""

    id: bytes = wire("uuid")
