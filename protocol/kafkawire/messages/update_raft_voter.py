"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class Listener(Struct):
    name: str = wire("string")
    host: str = wire("string")
    port: int = wire("uint16")


@struct
class KRaftVersionFeature(Struct):
    min_supported_version: int = wire("int16")
    max_supported_version: int = wire("int16")


@message(key=82, versions=(0, 0), flexible=0)
class UpdateRaftVoterRequest(Message):
    """Kafka's UpdateRaftVoterRequest, versions 0 to 0."""

    cluster_id: str | None = wire("string", nullable=0)
    current_leader_epoch: int = wire("int32")
    voter_id: int = wire("int32")
    voter_directory_id: bytes = wire("uuid")
    listeners: list[Listener] = wire([Listener])
    k_raft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)


@struct
class CurrentLeader(Struct):
    leader_id: int = wire("int32", entity="brokerId", default=-1)
    leader_epoch: int = wire("int32", default=-1)
    host: str = wire("string")
    port: int = wire("int32")


@message(key=82, versions=(0, 0), flexible=0)
class UpdateRaftVoterResponse(Message):
    """Kafka's UpdateRaftVoterResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    current_leader: CurrentLeader = wire(CurrentLeader, tag=0, default=CurrentLeader)
