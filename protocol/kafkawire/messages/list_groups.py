"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest(Message):
    """Kafka's ListGroupsRequest, versions 0 to 5."""

    states_filter: list[str] = wire(["string"], since=4, default=[])
    types_filter: list[str] = wire(["string"], since=5, default=[])


@struct
class ListedGroup(Struct):
    group_id: str = wire("string", entity="groupId")
    protocol_type: str = wire("string")
    group_state: str = wire("string", since=4, default="")
    group_type: str = wire("string", since=5, default="")


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse(Message):
    """Kafka's ListGroupsResponse, versions 0 to 5."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    error_code: int = wire("int16", entity="errorCode")
    groups: list[ListedGroup] = wire([ListedGroup])
