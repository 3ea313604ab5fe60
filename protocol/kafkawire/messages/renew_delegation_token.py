"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=39, versions=(0, 2), flexible=2)
class RenewDelegationTokenRequest(Message):
    """Kafka's RenewDelegationTokenRequest, versions 0 to 2."""

    hmac: bytes = wire("bytes")
    renew_period_ms: int = wire("int64")


@message(key=39, versions=(0, 2), flexible=2)
class RenewDelegationTokenResponse(Message):
    """Kafka's RenewDelegationTokenResponse, versions 0 to 2."""

    error_code: int = wire("int16", entity="errorCode")
    expiry_timestamp_ms: int = wire("int64")
    throttle_time_ms: int = wire("int32", default=0)
