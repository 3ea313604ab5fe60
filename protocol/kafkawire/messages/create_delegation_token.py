"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class CreatableRenewers(Struct):
    principal_type: str = wire("string")
    principal_name: str = wire("string")


@message(key=38, versions=(0, 3), flexible=2)
class CreateDelegationTokenRequest(Message):
    """Kafka's CreateDelegationTokenRequest, versions 0 to 3."""

    owner_principal_type: str | None = wire("string", since=3, nullable=3, default="")
    owner_principal_name: str | None = wire("string", since=3, nullable=3, default="")
    renewers: list[CreatableRenewers] = wire([CreatableRenewers])
    max_lifetime_ms: int = wire("int64")


@message(key=38, versions=(0, 3), flexible=2)
class CreateDelegationTokenResponse(Message):
    """Kafka's CreateDelegationTokenResponse, versions 0 to 3."""

    error_code: int = wire("int16", entity="errorCode")
    principal_type: str = wire("string")
    principal_name: str = wire("string")
    token_requester_principal_type: str = wire("string", since=3, default="")
    token_requester_principal_name: str = wire("string", since=3, default="")
    issue_timestamp_ms: int = wire("int64")
    expiry_timestamp_ms: int = wire("int64")
    max_timestamp_ms: int = wire("int64")
    token_id: str = wire("string")
    hmac: bytes = wire("bytes")
    throttle_time_ms: int = wire("int32", default=0)
