"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest(Message):
    """Kafka's FindCoordinatorRequest, versions 0 to 6."""

    key: str = wire("string", until=3, entity="coordinatorKey", default="")
    key_type: int = wire("int8", since=1, default=0)
    coordinator_keys: list[str] = wire(["string"], since=4, entity="coordinatorKey", default=[])


@struct
class Coordinator(Struct):
    key: str = wire("string", since=4, entity="coordinatorKey", default="")
    node_id: int = wire("int32", since=4, entity="brokerId", default=0)
    host: str = wire("string", since=4, default="")
    port: int = wire("int32", since=4, default=0)
    error_code: int = wire("int16", since=4, entity="errorCode", default=0)
    error_message: str | None = wire("string", since=4, nullable=4, default="")


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse(Message):
    """Kafka's FindCoordinatorResponse, versions 0 to 6."""

    throttle_time_ms: int = wire("int32", since=1, default=0)
    error_code: int = wire("int16", until=3, entity="errorCode", default=0)
    error_message: str | None = wire("string", since=1, until=3, nullable=1, nullable_until=3, default="")
    node_id: int = wire("int32", until=3, entity="brokerId", default=0)
    host: str = wire("string", until=3, default="")
    port: int = wire("int32", until=3, default=0)
    coordinators: list[Coordinator] = wire([Coordinator], since=4, default=[])
