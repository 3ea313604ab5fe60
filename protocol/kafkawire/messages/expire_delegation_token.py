"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=40, versions=(0, 2), flexible=2)
class ExpireDelegationTokenRequest(Message):
    """Kafka's ExpireDelegationTokenRequest, versions 0 to 2."""

    hmac: bytes = wire("bytes")
    expiry_time_period_ms: int = wire("int64")


@message(key=40, versions=(0, 2), flexible=2)
class ExpireDelegationTokenResponse(Message):
    """Kafka's ExpireDelegationTokenResponse, versions 0 to 2."""

    error_code: int = wire("int16", entity="errorCode")
    expiry_timestamp_ms: int = wire("int64")
    throttle_time_ms: int = wire("int32", default=0)
