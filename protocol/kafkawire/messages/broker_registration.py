"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class Listener(Struct):
    name: str = wire("string")
    host: str = wire("string")
    port: int = wire("uint16")
    security_protocol: int = wire("int16")


@struct
class Feature(Struct):
    name: str = wire("string")
    min_supported_version: int = wire("int16")
    max_supported_version: int = wire("int16")


@message(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationRequest(Message):
    """Kafka's BrokerRegistrationRequest, versions 0 to 4."""

    broker_id: int = wire("int32", entity="brokerId")
    cluster_id: str = wire("string")
    incarnation_id: bytes = wire("uuid")
    listeners: list[Listener] = wire([Listener])
    features: list[Feature] = wire([Feature])
    rack: str | None = wire("string", nullable=0)
    is_migrating_zk_broker: bool = wire("bool", since=1, default=False)
    log_dirs: list[bytes] = wire(["uuid"], since=2, default=[])
    previous_broker_epoch: int = wire("int64", since=3, default=-1)


@message(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationResponse(Message):
    """Kafka's BrokerRegistrationResponse, versions 0 to 4."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    broker_epoch: int = wire("int64", default=-1)
