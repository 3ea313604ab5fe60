"""ExpireDelegationToken, versions 1–2.

An owner or renewer may let a token expire in `expiry_time_period_ms`. A negative period removes the token at once, even if the
token has expired.
"""

from __future__ import annotations

from kafkawire.disk.metadata import TokenImage
from kafkawire.errors import ErrorCode
from kafkawire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from wirebroker.apis.create_delegation_token import STRICT_TOKENS, is_allowed
from wirebroker.apis.exchange import Exchange
from wirebroker.apis.renew_delegation_token import found
from wirebroker.core.delegation_tokens import has_expired, may_renew
from wirebroker.core.releases.changes import since, until

REMOVES_EXPIRED_TOKENS = since("3.7", "ExpireDelegationToken can remove an expired token")
TELLS_REMOVAL = until("3.6", "if ExpireDelegationToken removes a token, the response has the requested period").then(
    "3.7", True, "the response to ExpireDelegationToken has the time at which the token was removed"
)


def handle(request: ExpireDelegationTokenRequest, exchange: Exchange) -> ExpireDelegationTokenResponse:
    if not is_allowed(exchange.connection.session):
        refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=refused, expiry_timestamp_ms=-1)
    token, release = found(bytes(request.hmac), exchange), exchange.cluster.configs.release
    at_once = request.expiry_time_period_ms < 0
    if isinstance(token, TokenImage) and not may_renew(token, str(exchange.connection.session.principal)):
        token = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if (
        isinstance(token, TokenImage)
        and not (at_once and REMOVES_EXPIRED_TOKENS.of(release))
        and has_expired(token, exchange.now)
    ):
        token = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if isinstance(token, ErrorCode):
        return ExpireDelegationTokenResponse(error_code=token, expiry_timestamp_ms=0 if STRICT_TOKENS.of(release) else -1)
    until = exchange.now if at_once else min(token.most_at, exchange.now + request.expiry_time_period_ms)
    exchange.cluster.alter_token(token.token_id, None if at_once else token._replace(expires_at=until))
    told = until if TELLS_REMOVAL.of(release) or not at_once else request.expiry_time_period_ms
    return ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=told)
