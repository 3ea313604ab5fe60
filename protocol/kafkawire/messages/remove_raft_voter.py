"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterRequest(Message):
    """Kafka's RemoveRaftVoterRequest, versions 0 to 0."""

    cluster_id: str | None = wire("string", nullable=0)
    voter_id: int = wire("int32")
    voter_directory_id: bytes = wire("uuid")


@message(key=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterResponse(Message):
    """Kafka's RemoveRaftVoterResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
