"""Follows logins through the proxy, to learn who the client is, and why a broker refuses a login.

A login has succeeded when the broker has sent its last message. With SCRAM, the last message is the broker's signature. With
all other mechanisms, the last message is the broker's first response. GSSAPI encrypts the user's name, so the proxy cannot read
the principal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.declare import Message
from kafkawire.errors import error_name
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.registry import SASL_AUTHENTICATE, SASL_HANDSHAKE
from wirebroker.security.identities import user_of
from wirebroker.security.principals import USER, Principal
from wirebroker.security.scram import BY_NAME

if TYPE_CHECKING:
    from wirebroker.requests.connection import Connection
    from wirebroker.trace.recorder import Recorder

LOGINS = frozenset((SASL_HANDSHAKE, SASL_AUTHENTICATE))
"""The APIs with which clients log in."""
SIGNATURE = b"v="
"""The broker's last SCRAM message begins with these bytes."""
UNKNOWN = "?"
"""A placeholder for a client's user name, if the login tokens do not contain the name."""


class Logins:
    """Follows the logins at a proxy, and notes how they end."""

    def __init__(self, trace: Recorder) -> None:
        self._trace = trace

    def passed(self, connection: Connection, request: Message, response: Message, now: int) -> None:
        """Note a login request and its response. `now` is in ms since the epoch."""
        if isinstance(request, SaslHandshakeRequest) and isinstance(response, SaslHandshakeResponse):
            connection.session.asked = request.mechanism
            connection.session.user = ""
            if response.error_code:
                enabled = ", ".join(response.mechanisms) or "none"
                self._failed(connection, f"{error_name(response.error_code)}: the broker's listener has {enabled}")
        elif isinstance(request, SaslAuthenticateRequest) and isinstance(response, SaslAuthenticateResponse):
            self._token(connection, request, response, now)

    def bare_token(self, connection: Connection, token: bytes) -> None:
        """Note a client's bare token: a token without a request header. Clients send bare tokens after version 0 of
        SaslHandshake."""
        session = connection.session
        session.user = user_of(session.asked, token) or session.user

    def bare_response(self, connection: Connection, token: bytes) -> None:
        """Note the broker's response to a bare token."""
        if connection.session.mechanism != connection.session.asked and self._is_last(connection, token):
            self._succeeded(connection, None)

    def ended(self, connection: Connection, owes_token: bool) -> None:
        """Remember that a connection was closed. If a broker refuses a bare token, it closes the connection without a
        response."""
        if owes_token and not connection.session.mechanism:
            self._failed(connection, "the broker closed the connection without a response to the client's token")

    def _token(
        self, connection: Connection, request: SaslAuthenticateRequest, response: SaslAuthenticateResponse, now: int
    ) -> None:
        session = connection.session
        session.user = user_of(session.asked, request.auth_bytes) or session.user
        if response.error_code:
            self._failed(connection, response.error_message or error_name(response.error_code))
        elif self._is_last(connection, bytes(response.auth_bytes)):
            lifetime = response.session_lifetime_ms
            self._succeeded(connection, now + lifetime if lifetime > 0 else None)

    def _is_last(self, connection: Connection, token: bytes) -> bool:
        """Tells whether this is the broker's last message of the login. In a capture, asterisks replace the token; a replaced
        token counts as the last message."""
        hidden = bool(token) and not token.strip(b"*")
        return connection.session.asked not in BY_NAME or token.startswith(SIGNATURE) or hidden

    def _succeeded(self, connection: Connection, expires_at: int | None) -> None:
        session = connection.session
        principal = Principal(USER, session.user or UNKNOWN)
        session.again = bool(session.mechanism)
        session.mechanism, session.principal, session.expires_at = session.asked, principal, expires_at
        self._trace.authenticated(connection, "succeeded")

    def _failed(self, connection: Connection, reason: str) -> None:
        self._trace.authenticated(connection, "failed", reason)
