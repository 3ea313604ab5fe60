"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class EntityData(Struct):
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable=0)


@struct
class OpData(Struct):
    key: str = wire("string")
    value: float = wire("float64")
    remove: bool = wire("bool")


@struct
class EntryData(Struct):
    entity: list[EntityData] = wire([EntityData])
    ops: list[OpData] = wire([OpData])


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest(Message):
    """Kafka's AlterClientQuotasRequest, versions 0 to 1."""

    entries: list[EntryData] = wire([EntryData])
    validate_only: bool = wire("bool")


@struct
class ResponseEntityData(Struct):
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable=0)


@struct
class ResponseEntryData(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    entity: list[ResponseEntityData] = wire([ResponseEntityData])


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse(Message):
    """Kafka's AlterClientQuotasResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    entries: list[ResponseEntryData] = wire([ResponseEntryData])
