"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class Listener(Struct):
    name: str = wire("string")
    host: str = wire("string")
    port: int = wire("uint16")


@message(key=80, versions=(0, 1), flexible=0)
class AddRaftVoterRequest(Message):
    """Kafka's AddRaftVoterRequest, versions 0 to 1."""

    cluster_id: str | None = wire("string", nullable=0)
    timeout_ms: int = wire("int32")
    voter_id: int = wire("int32")
    voter_directory_id: bytes = wire("uuid")
    listeners: list[Listener] = wire([Listener])
    ack_when_committed: bool = wire("bool", since=1, default=True)


@message(key=80, versions=(0, 1), flexible=0)
class AddRaftVoterResponse(Message):
    """Kafka's AddRaftVoterResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
