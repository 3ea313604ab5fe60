"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=18, versions=(0, 0), flexible=0)
class AccessControlEntryRecord(Message):
    """Kafka's AccessControlEntryRecord, versions 0 to 0."""

    id: bytes = wire("uuid")
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    pattern_type: int = wire("int8")
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")
