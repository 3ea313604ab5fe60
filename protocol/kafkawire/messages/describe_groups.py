"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest(Message):
    """Kafka's DescribeGroupsRequest, versions 0 to 6."""

    groups: list[str] = wire(["string"], entity="groupId")
    include_authorized_operations: bool = wire("bool", since=3, default=False)


@struct
class DescribedGroupMember(Struct):
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=4, nullable=4, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    member_metadata: bytes = wire("bytes")
    member_assignment: bytes = wire("bytes")


@struct
class DescribedGroup(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", since=6, nullable=6, default=None)
    group_id: str = wire("string", entity="groupId")
    group_state: str = wire("string")
    protocol_type: str = wire("string")
    protocol_data: str = wire("string")
    members: list[DescribedGroupMember] = wire([DescribedGroupMember])
    authorized_operations: int = wire("int32", since=3, default=-2147483648)


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse(Message):
    """Kafka's DescribeGroupsResponse, versions 0 to 6."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    groups: list[DescribedGroup] = wire([DescribedGroup])
