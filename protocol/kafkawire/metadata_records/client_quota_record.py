"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class EntityData(Struct):
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable=0)


@message(key=14, versions=(0, 0), flexible=0)
class ClientQuotaRecord(Message):
    """Kafka's ClientQuotaRecord, versions 0 to 0."""

    entity: list[EntityData] = wire([EntityData])
    key: str = wire("string")
    value: float = wire("float64")
    remove: bool = wire("bool")
