"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class FeatureUpdateKey(Struct):
    feature: str = wire("string")
    max_version_level: int = wire("int16")
    allow_downgrade: bool = wire("bool", until=0, default=False)
    upgrade_type: int = wire("int8", since=1, default=1)


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest(Message):
    """Kafka's UpdateFeaturesRequest, versions 0 to 2."""

    timeout_ms: int = wire("int32", default=60000)
    feature_updates: list[FeatureUpdateKey] = wire([FeatureUpdateKey])
    validate_only: bool = wire("bool", since=1, default=False)


@struct
class UpdatableFeatureResult(Struct):
    feature: str = wire("string")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse(Message):
    """Kafka's UpdateFeaturesResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    results: list[UpdatableFeatureResult] = wire([UpdatableFeatureResult], until=1, default=[])
