"""SaslHandshake, versions 0–1.

The client names the mechanism by which it wants to authenticate. After a handshake of version 0 the client sends bare tokens
without request headers. A disabled mechanism gets UNSUPPORTED_SASL_MECHANISM, and the connection closes. An authenticated
client gets ILLEGAL_SASL_STATE, unless its session has an expiration time: such a client may reauthenticate (KIP-368).
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirebroker.apis.exchange import Exchange
from wirebroker.core.releases.changes import since
from wirebroker.requests.effects import Outcome
from wirebroker.security.session import Stage

HIDES_MECHANISMS = since("1.1", "a SaslHandshake that is refused with error 34 lists no mechanisms")


def handle(request: SaslHandshakeRequest, exchange: Exchange) -> SaslHandshakeResponse | Outcome:
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
