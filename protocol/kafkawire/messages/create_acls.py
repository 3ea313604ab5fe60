"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class AclCreation(Struct):
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    resource_pattern_type: int = wire("int8", since=1, default=3)
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@message(key=30, versions=(0, 3), flexible=2)
class CreateAclsRequest(Message):
    """Kafka's CreateAclsRequest, versions 0 to 3."""

    creations: list[AclCreation] = wire([AclCreation])


@struct
class AclCreationResult(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)


@message(key=30, versions=(0, 3), flexible=2)
class CreateAclsResponse(Message):
    """Kafka's CreateAclsResponse, versions 0 to 3."""

    throttle_time_ms: int = wire("int32", default=0)
    results: list[AclCreationResult] = wire([AclCreationResult])
