"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class MemberIdentity(Struct):
    member_id: str = wire("string", since=3, default="")
    group_instance_id: str | None = wire("string", since=3, nullable=3, default=None)
    reason: str | None = wire("string", since=5, nullable=5, default=None)


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(Message):
    """Kafka's LeaveGroupRequest, versions 0 to 5."""

    group_id: str = wire("string", entity="groupId")
    member_id: str = wire("string", until=2, default="")
    members: list[MemberIdentity] = wire([MemberIdentity], since=3, default=[])


@struct
class MemberResponse(Struct):
    member_id: str = wire("string", since=3, default="")
    group_instance_id: str | None = wire("string", since=3, nullable=3, default="")
    error_code: int = wire("int16", since=3, entity="errorCode", default=0)


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(Message):
    """Kafka's LeaveGroupResponse, versions 0 to 5."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    error_code: int = wire("int16", entity="errorCode")
    members: list[MemberResponse] = wire([MemberResponse], since=3, default=[])
