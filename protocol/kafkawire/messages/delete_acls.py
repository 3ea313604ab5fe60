"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DeleteAclsFilter(Struct):
    resource_type_filter: int = wire("int8")
    resource_name_filter: str | None = wire("string", nullable=0)
    pattern_type_filter: int = wire("int8", since=1, default=3)
    principal_filter: str | None = wire("string", nullable=0)
    host_filter: str | None = wire("string", nullable=0)
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@message(key=31, versions=(0, 3), flexible=2)
class DeleteAclsRequest(Message):
    """Kafka's DeleteAclsRequest, versions 0 to 3."""

    filters: list[DeleteAclsFilter] = wire([DeleteAclsFilter])


@struct
class DeleteAclsMatchingAcl(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    pattern_type: int = wire("int8", since=1, default=3)
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@struct
class DeleteAclsFilterResult(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    matching_acls: list[DeleteAclsMatchingAcl] = wire([DeleteAclsMatchingAcl])


@message(key=31, versions=(0, 3), flexible=2)
class DeleteAclsResponse(Message):
    """Kafka's DeleteAclsResponse, versions 0 to 3."""

    throttle_time_ms: int = wire("int32", default=0)
    filter_results: list[DeleteAclsFilterResult] = wire([DeleteAclsFilterResult])
