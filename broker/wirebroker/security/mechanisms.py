"""The interface of a SASL mechanism. For each token of the client, the mechanism returns a challenge, a success or a
failure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, GSSAPI = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"
OAUTHBEARER = "OAUTHBEARER"
BY_PASSWORD = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
"""The mechanisms that are enabled unless `sasl.enabled.mechanisms` names other mechanisms."""
SERVED = (*BY_PASSWORD, OAUTHBEARER)
"""The mechanisms that this broker supports. GSSAPI (Kerberos) is missing, because it needs a realm."""


class Challenge(NamedTuple):
    """A token to which the client has to respond."""

    token: bytes


class Success(NamedTuple):
    """The client has proved that it is the user `user`."""

    token: bytes
    user: str
    expires_at: int | None = None
    """The time at which the credential expires, in ms since the epoch; None if it never expires."""
    by_token: bool = False
    """Tells whether the credential is a delegation token."""


class Failure(NamedTuple):
    """The client has failed to prove its identity. `cause` is for the log, and contains no secret."""

    cause: str
    message: str | None = None
    """The error message in the response. None means the standard message, which says only that the credentials are invalid."""
    responds: bool = True
    """Tells whether the client gets a response. For some tokens, Kafka closes the connection instead."""


Outcome = Challenge | Success | Failure


class Mechanism(Protocol):
    """The broker's side of one SASL dialogue (javax.security.sasl.SaslServer)."""

    def evaluate(self, token: bytes, now: int) -> Outcome:
        """Evaluate the client's next token; `now` is in ms since the epoch."""
