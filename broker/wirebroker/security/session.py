"""The session of a client's connection: the listener, the principal, and the deadline for the next authentication."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from wirebroker.security.principals import ANONYMOUS, Principal
from wirebroker.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from wirebroker.security.mechanisms import Mechanism


class Stage(Enum):
    """The messages that a SASL client may send next (SaslServerAuthenticator.SaslState)."""

    HANDSHAKE_OR_VERSIONS = "SaslHandshake or ApiVersions"
    HANDSHAKE = "SaslHandshake"
    TOKEN = "SaslAuthenticate"
    OTHER_MECHANISM = "nothing: the client tried to authenticate again by another mechanism"
    DONE = "any request"


class Session:
    """The session of one connection. Without SASL, the stage is DONE from the beginning."""

    __slots__ = ("again", "asked", "bare", "begun_again_at", "by_token", "ended", "expires_at", "listener", "mechanism",
                 "principal", "protocol", "sasl", "stage", "user")  # fmt: skip

    def __init__(
        self, listener: str, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, principal: Principal = ANONYMOUS
    ) -> None:
        self.listener = listener
        self.protocol = protocol
        self.principal = principal
        """The client's principal. During a re-authentication this is still the principal of the previous authentication."""
        self.by_token = False
        """Tells whether the client authenticated with a delegation token. Such a client may not create or renew delegation
        tokens."""
        self.stage = Stage.HANDSHAKE_OR_VERSIONS if protocol.sasl else Stage.DONE
        self.mechanism = ""
        """The mechanism by which the client is authenticated; "" before the first success."""
        self.asked = ""
        """The mechanism of the authentication in progress or, if none is in progress, of the last authentication."""
        self.user = ""
        """The client's user name in the authentication in progress or, if none is in progress, in the last authentication."""
        self.again = False
        """Tells whether the last successful authentication was a re-authentication."""
        self.sasl: Mechanism | None = None
        """The SASL dialogue of the authentication in progress."""
        self.bare = False
        """Tells whether the client's tokens have no request headers, as after SaslHandshake version 0."""
        self.expires_at: int | None = None
        """The deadline for the next authentication, in ms since the epoch (KIP-368). If the session never
        expires, this is None.
        """
        self.ended = False
        """Tells whether a fault has ended the session before its deadline."""
        self.begun_again_at: int | None = None
        """The time at which the last re-authentication began."""

    def move_time(self, ms: int) -> None:
        """Move the session's times by `ms`, because the broker's clock was moved."""
        if self.expires_at is not None:
            self.expires_at += ms
        if self.begun_again_at is not None:
            self.begun_again_at += ms

    @property
    def sasl_user(self) -> bool:
        """Tells whether the client has authenticated by SASL."""
        return self.protocol.sasl and self.mechanism != ""
