"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=42, versions=(0, 3), flexible=2)
class DeleteGroupsRequest(Message):
    """Kafka's DeleteGroupsRequest, versions 0 to 3."""

    groups_names: list[str] = wire(["string"], entity="groupId")


@struct
class DeletableGroupResult(Struct):
    group_id: str = wire("string", entity="groupId")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", since=3, nullable=3, default=None)


@message(key=42, versions=(0, 3), flexible=2)
class DeleteGroupsResponse(Message):
    """Kafka's DeleteGroupsResponse, versions 0 to 3."""

    throttle_time_ms: int = wire("int32", default=0)
    results: list[DeletableGroupResult] = wire([DeletableGroupResult])
