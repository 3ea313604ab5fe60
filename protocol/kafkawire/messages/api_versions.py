"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=18, versions=(0, 5), flexible=3)
class ApiVersionsRequest(Message):
    """Kafka's ApiVersionsRequest, versions 0 to 5."""

    client_software_name: str = wire("string", since=3, default="")
    client_software_version: str = wire("string", since=3, default="")
    cluster_id: str | None = wire("string", since=5, nullable=5, default=None)
    node_id: int = wire("int32", since=5, default=-1)


@struct
class ApiVersion(Struct):
    api_key: int = wire("int16")
    min_version: int = wire("int16")
    max_version: int = wire("int16")


@struct
class SupportedFeatureKey(Struct):
    name: str = wire("string", since=3, default="")
    min_version: int = wire("int16", since=3, default=0)
    max_version: int = wire("int16", since=3, default=0)


@struct
class FinalizedFeatureKey(Struct):
    name: str = wire("string", since=3, default="")
    max_version_level: int = wire("int16", since=3, default=0)
    min_version_level: int = wire("int16", since=3, default=0)


@message(key=18, versions=(0, 5), flexible=3)
class ApiVersionsResponse(Message):
    """Kafka's ApiVersionsResponse, versions 0 to 5."""

    error_code: int = wire("int16", entity="errorCode")
    api_keys: list[ApiVersion] = wire([ApiVersion])
    throttle_time_ms: int = wire("int32", since=1, default=0)
    supported_features: list[SupportedFeatureKey] = wire([SupportedFeatureKey], since=3, tag=0, default=[])
    finalized_features_epoch: int = wire("int64", since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = wire([FinalizedFeatureKey], since=3, tag=2, default=[])
    zk_migration_ready: bool = wire("bool", since=3, tag=3, default=False)
