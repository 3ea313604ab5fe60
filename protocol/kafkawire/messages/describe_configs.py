"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DescribeConfigsResource(Struct):
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    configuration_keys: list[str] | None = wire(["string"], nullable=0)


@message(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsRequest(Message):
    """Kafka's DescribeConfigsRequest, versions 0 to 4."""

    resources: list[DescribeConfigsResource] = wire([DescribeConfigsResource])
    include_synonyms: bool = wire("bool", since=1, default=False)
    include_documentation: bool = wire("bool", since=3, default=False)


@struct
class DescribeConfigsSynonym(Struct):
    name: str = wire("string", since=1, default="")
    value: str | None = wire("string", since=1, nullable=1, default="")
    source: int = wire("int8", since=1, default=0)


@struct
class DescribeConfigsResourceResult(Struct):
    name: str = wire("string")
    value: str | None = wire("string", nullable=0)
    read_only: bool = wire("bool")
    is_default: bool = wire("bool", until=0, default=False)
    config_source: int = wire("int8", since=1, default=-1)
    is_sensitive: bool = wire("bool")
    synonyms: list[DescribeConfigsSynonym] = wire([DescribeConfigsSynonym], since=1, default=[])
    config_type: int = wire("int8", since=3, default=0)
    documentation: str | None = wire("string", since=3, nullable=1, default="")


@struct
class DescribeConfigsResult(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    configs: list[DescribeConfigsResourceResult] = wire([DescribeConfigsResourceResult])


@message(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsResponse(Message):
    """Kafka's DescribeConfigsResponse, versions 0 to 4."""

    throttle_time_ms: int = wire("int32", default=0)
    results: list[DescribeConfigsResult] = wire([DescribeConfigsResult])
