"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class JoinGroupRequestProtocol(Struct):
    name: str = wire("string")
    metadata: bytes = wire("bytes")


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(Message):
    """Kafka's JoinGroupRequest, versions 0 to 9."""

    group_id: str = wire("string", entity="groupId")
    session_timeout_ms: int = wire("int32")
    rebalance_timeout_ms: int = wire("int32", since=1, default=-1)
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=5, nullable=5, default=None)
    protocol_type: str = wire("string")
    protocols: list[JoinGroupRequestProtocol] = wire([JoinGroupRequestProtocol])
    reason: str | None = wire("string", since=8, nullable=8, default=None)


@struct
class JoinGroupResponseMember(Struct):
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=5, nullable=5, default=None)
    metadata: bytes = wire("bytes")


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse(Message):
    """Kafka's JoinGroupResponse, versions 0 to 9."""

    throttle_time_ms: int = wire("int32", since=2, default=0)
    error_code: int = wire("int16", entity="errorCode")
    generation_id: int = wire("int32", default=-1)
    protocol_type: str | None = wire("string", since=7, nullable=7, default=None)
    protocol_name: str | None = wire("string", nullable=7)
    leader: str = wire("string")
    skip_assignment: bool = wire("bool", since=9, default=False)
    member_id: str = wire("string")
    members: list[JoinGroupResponseMember] = wire([JoinGroupResponseMember])
