"""RenewDelegationToken, versions 1–2.

The owner and the renewers may extend a token's lifetime by `renew_period_ms`, but at most by delegation.token.expiry.time.ms,
and never beyond the token's maximum lifetime.
"""

from __future__ import annotations

from kafkawire.disk.metadata import TokenImage
from kafkawire.errors import ErrorCode
from kafkawire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from wirebroker.apis.create_delegation_token import KEY, STRICT_TOKENS, is_allowed, lifetimes, unusable_tokens
from wirebroker.apis.exchange import Exchange
from wirebroker.core.delegation_tokens import has_expired, may_renew


def handle(request: RenewDelegationTokenRequest, exchange: Exchange) -> RenewDelegationTokenResponse:
    if not is_allowed(exchange.connection.session):
        refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RenewDelegationTokenResponse(error_code=refused, expiry_timestamp_ms=-1)
    token, strict = found(bytes(request.hmac), exchange), STRICT_TOKENS.of(exchange.cluster.configs.release)
    if isinstance(token, TokenImage):
        mismatch = not may_renew(token, str(exchange.connection.session.principal))
        # A broker takes at least a millisecond to write to ZooKeeper, so a token that was renewed for 0 ms has expired.
        expired = has_expired(token, exchange.now if strict else exchange.now + 1)
        if expired and (strict or not mismatch):
            token = ErrorCode.DELEGATION_TOKEN_EXPIRED
        elif mismatch:
            token = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if isinstance(token, ErrorCode):
        return RenewDelegationTokenResponse(error_code=token, expiry_timestamp_ms=0 if strict else -1)
    until = lifetimes(exchange).until(exchange.now, token.most_at, request.renew_period_ms, strict=strict)
    exchange.cluster.alter_token(token.token_id, token._replace(expires_at=until))
    return RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=until)


def found(secret: bytes, exchange: Exchange) -> TokenImage | ErrorCode:
    """Returns the token with this HMAC, or the error."""
    if unusable := unusable_tokens(exchange):
        return unusable
    key = exchange.cluster.configs.text(KEY)
    return exchange.cluster.tokens.with_secret(secret, key) or ErrorCode.DELEGATION_TOKEN_NOT_FOUND
