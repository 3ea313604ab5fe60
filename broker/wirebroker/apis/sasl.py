"""SaslHandshake, versions 0–1.

The client names the mechanism by which it wants to authenticate. After a handshake of version 0 the client sends bare tokens
without request headers. A disabled mechanism gets UNSUPPORTED_SASL_MECHANISM, and the connection closes. An authenticated
client gets ILLEGAL_SASL_STATE, unless its session has an expiration time: such a client may reauthenticate (KIP-368).

SaslAuthenticate, versions 0–2.

The client sends one token of its SASL login, and the response has the broker's token. From version 1 on, the last response has
the lifetime of the session in ms (KIP-368), or 0 if the session does not end. A client with wrong credentials gets
SASL_AUTHENTICATION_FAILED, and the connection ends. An authenticated client gets ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirebroker.apis.exchange import Exchange
from wirebroker.core.releases.changes import since
from wirebroker.requests.effects import Outcome
from wirebroker.security.mechanisms import Failure, Success
from wirebroker.security.session import Stage

HIDES_MECHANISMS = since("1.1", "a SaslHandshake that is refused with error 34 lists no mechanisms")
EMPTY_LOGIN_MESSAGES = since("2.3", "if SaslAuthenticate succeeds, its error message is empty instead of null")


def sasl_handshake(request: SaslHandshakeRequest, exchange: Exchange) -> SaslHandshakeResponse | Outcome:
    authenticator, connection = exchange.engine.authenticator, exchange.connection
    if connection.session.stage is Stage.DONE:
        hides = HIDES_MECHANISMS.of(exchange.cluster.configs.release)
        names = [] if hides else authenticator.mechanisms_in_setting(connection.session.listener)
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=names)
    failure = authenticator.handshake(connection, request.mechanism, bare=exchange.version == 0)
    code = ErrorCode.NONE if failure is None else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    response = SaslHandshakeResponse(error_code=code, mechanisms=authenticator.mechanisms(connection.session.listener))
    if failure is None:
        return response
    unheard = connection.session.mechanism != ""  # Kafka closes an authenticated connection without a response
    return exchange.engine.unauthenticated(exchange, None if unheard else response, failure.cause)


def sasl_authenticate(request: SaslAuthenticateRequest, exchange: Exchange) -> SaslAuthenticateResponse | Outcome:
    session = exchange.connection.session
    if session.stage is not Stage.TOKEN:
        message = "SaslAuthenticate request received after successful authentication"
        return _error(ErrorCode.ILLEGAL_SASL_STATE, message)
    outcome = exchange.engine.authenticator.evaluate(exchange.connection, bytes(request.auth_bytes), exchange.now)
    if isinstance(outcome, Failure):
        response = _error(ErrorCode.SASL_AUTHENTICATION_FAILED, outcome.message) if outcome.responds else None
        return exchange.engine.unauthenticated(exchange, response, outcome.cause)
    ends = session.expires_at if isinstance(outcome, Success) else None
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE,
        error_message="" if EMPTY_LOGIN_MESSAGES.of(exchange.cluster.configs.release) else None,
        auth_bytes=outcome.token,
        session_lifetime_ms=0 if ends is None else ends - exchange.now,
    )


def _error(code: ErrorCode, message: str | None) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
