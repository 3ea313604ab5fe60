"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class DescribeDelegationTokenOwner(Struct):
    principal_type: str = wire("string")
    principal_name: str = wire("string")


@message(key=41, versions=(0, 3), flexible=2)
class DescribeDelegationTokenRequest(Message):
    """Kafka's DescribeDelegationTokenRequest, versions 0 to 3."""

    owners: list[DescribeDelegationTokenOwner] | None = wire([DescribeDelegationTokenOwner], nullable=0)


@struct
class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = wire("string")
    principal_name: str = wire("string")


@struct
class DescribedDelegationToken(Struct):
    principal_type: str = wire("string")
    principal_name: str = wire("string")
    token_requester_principal_type: str = wire("string", since=3, default="")
    token_requester_principal_name: str = wire("string", since=3, default="")
    issue_timestamp: int = wire("int64")
    expiry_timestamp: int = wire("int64")
    max_timestamp: int = wire("int64")
    token_id: str = wire("string")
    hmac: bytes = wire("bytes")
    renewers: list[DescribedDelegationTokenRenewer] = wire([DescribedDelegationTokenRenewer])


@message(key=41, versions=(0, 3), flexible=2)
class DescribeDelegationTokenResponse(Message):
    """Kafka's DescribeDelegationTokenResponse, versions 0 to 3."""

    error_code: int = wire("int16", entity="errorCode")
    tokens: list[DescribedDelegationToken] = wire([DescribedDelegationToken])
    throttle_time_ms: int = wire("int32", default=0)
