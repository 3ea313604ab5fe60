"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(Message):
    """Kafka's HeartbeatRequest, versions 0 to 4."""

    group_id: str = wire("string", entity="groupId")
    generation_id: int = wire("int32")
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", since=3, nullable=3, default=None)


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(Message):
    """Kafka's HeartbeatResponse, versions 0 to 4."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    error_code: int = wire("int16", entity="errorCode")
