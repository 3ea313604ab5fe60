"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class UserName(Struct):
    name: str = wire("string")


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest(Message):
    """Kafka's DescribeUserScramCredentialsRequest, versions 0 to 0."""

    users: list[UserName] | None = wire([UserName], nullable=0)


@struct
class CredentialInfo(Struct):
    mechanism: int = wire("int8")
    iterations: int = wire("int32")


@struct
class DescribeUserScramCredentialsResult(Struct):
    user: str = wire("string")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    credential_infos: list[CredentialInfo] = wire([CredentialInfo])


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse(Message):
    """Kafka's DescribeUserScramCredentialsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)
    results: list[DescribeUserScramCredentialsResult] = wire([DescribeUserScramCredentialsResult])
