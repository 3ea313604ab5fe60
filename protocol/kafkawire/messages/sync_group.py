"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class SyncGroupRequestAssignment(Struct):
    member_id: str = wire("string")
    assignment: bytes = wire("bytes")


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest(Message):
    """Kafka's SyncGroupRequest, versions 0 to 5."""

    group_id: str = wire("string", entity="groupId")
    generation_id: int = wire("int32")
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=3, nullable=3, default=None)
    protocol_type: str | None = wire("string", since=5, nullable=5, default=None)
    protocol_name: str | None = wire("string", since=5, nullable=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = wire([SyncGroupRequestAssignment])


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse(Message):
    """Kafka's SyncGroupResponse, versions 0 to 5."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    error_code: int = wire("int16", entity="errorCode")
    protocol_type: str | None = wire("string", since=5, nullable=5, default=None)
    protocol_name: str | None = wire("string", since=5, nullable=5, default=None)
    assignment: bytes = wire("bytes")
