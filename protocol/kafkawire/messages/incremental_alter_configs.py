"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class AlterableConfig(Struct):
    name: str = wire("string")
    config_operation: int = wire("int8")
    value: str | None = wire("string", nullable=0)


@struct
class AlterConfigsResource(Struct):
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    configs: list[AlterableConfig] = wire([AlterableConfig])


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest(Message):
    """Kafka's IncrementalAlterConfigsRequest, versions 0 to 1."""

    resources: list[AlterConfigsResource] = wire([AlterConfigsResource])
    validate_only: bool = wire("bool")


@struct
class AlterConfigsResourceResponse(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse(Message):
    """Kafka's IncrementalAlterConfigsResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    responses: list[AlterConfigsResourceResponse] = wire([AlterConfigsResourceResponse])
