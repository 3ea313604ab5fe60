"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=29, versions=(0, 3), flexible=2)
class DescribeAclsRequest(Message):
    """Kafka's DescribeAclsRequest, versions 0 to 3."""

    resource_type_filter: int = wire("int8")
    resource_name_filter: str | None = wire("string", nullable=0)
    pattern_type_filter: int = wire("int8", since=1, default=3)
    principal_filter: str | None = wire("string", nullable=0)
    host_filter: str | None = wire("string", nullable=0)
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@struct
class AclDescription(Struct):
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@struct
class DescribeAclsResource(Struct):
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    pattern_type: int = wire("int8", since=1, default=3)
    acls: list[AclDescription] = wire([AclDescription])


@message(key=29, versions=(0, 3), flexible=2)
class DescribeAclsResponse(Message):
    """Kafka's DescribeAclsResponse, versions 0 to 3."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    resources: list[DescribeAclsResource] = wire([DescribeAclsResource])
