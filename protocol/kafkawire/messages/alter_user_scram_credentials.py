"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class ScramCredentialDeletion(Struct):
    name: str = wire("string")
    mechanism: int = wire("int8")


@struct
class ScramCredentialUpsertion(Struct):
    name: str = wire("string")
    mechanism: int = wire("int8")
    iterations: int = wire("int32")
    salt: bytes = wire("bytes")
    salted_password: bytes = wire("bytes")


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest(Message):
    """Kafka's AlterUserScramCredentialsRequest, versions 0 to 0."""

    deletions: list[ScramCredentialDeletion] = wire([ScramCredentialDeletion])
    upsertions: list[ScramCredentialUpsertion] = wire([ScramCredentialUpsertion])


@struct
class AlterUserScramCredentialsResult(Struct):
    user: str = wire("string")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0)


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse(Message):
    """Kafka's AlterUserScramCredentialsResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    results: list[AlterUserScramCredentialsResult] = wire([AlterUserScramCredentialsResult])
