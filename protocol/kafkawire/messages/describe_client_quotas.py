"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class ComponentData(Struct):
    entity_type: str = wire("string")
    match_type: int = wire("int8")
    match: str | None = wire("string", nullable=0)


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest(Message):
    """Kafka's DescribeClientQuotasRequest, versions 0 to 1."""

    components: list[ComponentData] = wire([ComponentData])
    strict: bool = wire("bool")


@struct
class EntityData(Struct):
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable=0)


@struct
class ValueData(Struct):
    key: str = wire("string")
    value: float = wire("float64")


@struct
class EntryData(Struct):
    entity: list[EntityData] = wire([EntityData])
    values: list[ValueData] = wire([ValueData])


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse(Message):
    """Kafka's DescribeClientQuotasResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    entries: list[EntryData] | None = wire([EntryData], nullable=0)
