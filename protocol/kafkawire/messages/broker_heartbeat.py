"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatRequest(Message):
    """Kafka's BrokerHeartbeatRequest, versions 0 to 2."""

    broker_id: int = wire("int32", entity="brokerId")
    broker_epoch: int = wire("int64", default=-1)
    current_metadata_offset: int = wire("int64")
    want_fence: bool = wire("bool")
    want_shut_down: bool = wire("bool")
    offline_log_dirs: list[bytes] = wire(["uuid"], since=1, tag=0, default=[])
    cordoned_log_dirs: list[bytes] | None = wire(["uuid"], since=2, nullable=2, tag=1, default=None)


@message(key=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatResponse(Message):
    """Kafka's BrokerHeartbeatResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    is_caught_up: bool = wire("bool", default=False)
    is_fenced: bool = wire("bool", default=True)
    should_shut_down: bool = wire("bool")
