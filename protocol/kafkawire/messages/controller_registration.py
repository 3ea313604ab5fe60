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


@message(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationRequest(Message):
    """Kafka's ControllerRegistrationRequest, versions 0 to 0."""

    controller_id: int = wire("int32")
    incarnation_id: bytes = wire("uuid")
    zk_migration_ready: bool = wire("bool")
    listeners: list[Listener] = wire([Listener])
    features: list[Feature] = wire([Feature])


@message(key=70, versions=(0, 0), flexible=0)
class ControllerRegistrationResponse(Message):
    """Kafka's ControllerRegistrationResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
