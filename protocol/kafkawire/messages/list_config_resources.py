"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest(Message):
    """Kafka's ListConfigResourcesRequest, versions 0 to 1."""

    resource_types: list[int] = wire(["int8"], since=1, default=[])


@struct
class ConfigResource(Struct):
    resource_name: str = wire("string")
    resource_type: int = wire("int8", since=1, default=16)


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse(Message):
    """Kafka's ListConfigResourcesResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    config_resources: list[ConfigResource] = wire([ConfigResource])
