"""Delegation tokens: CreateDelegationToken and DescribeDelegationToken (versions 1–3), RenewDelegationToken and
ExpireDelegationToken (versions 1–2).

A token is for the client itself or, from version 3 on, for another owner. A token for another owner needs CREATE_TOKENS on the
User. If the client uses plaintext or logged in with a token, the response is DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Renewers
must be users. If the level of metadata.version is too low, the response is UNSUPPORTED_VERSION.

A client sees the tokens that it owns, that it requested, or that it may renew. To see other tokens, the client needs DESCRIBE
on the DelegationToken, or DESCRIBE_TOKENS on the owner. An empty list of owners selects no tokens, and null selects all.

The owner and the renewers may extend a token's lifetime by `renew_period_ms`, but at most by delegation.token.expiry.time.ms,
and never beyond the token's maximum lifetime. They may also let a token expire in `expiry_time_period_ms`. A negative period
removes the token at once, even if the token has expired.
"""

from __future__ import annotations

from kafkawire.declare import Message
from kafkawire.disk.metadata import TokenImage
from kafkawire.errors import ErrorCode
from kafkawire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kafkawire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkawire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kafkawire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kafkawire.primitives import format_uuid, new_uuid
from wirebroker.apis.exchange import Exchange
from wirebroker.core.acls import Operation, ResourceType
from wirebroker.core.delegation_tokens import Lifetimes, concerned, has_expired, may_renew, secret_of
from wirebroker.core.features import TOKENS_SINCE, is_too_old
from wirebroker.core.releases.changes import since, until
from wirebroker.security.principals import ANONYMOUS, USER, Principal
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.session import Session

STRICT_TOKENS = since("3.6", "RenewDelegationToken with a period of 0 ms uses the default period", "KAFKA-15219")
"""From this release on, if tokens are disabled, or if a request names a wrong token, the response has the expiry time 0 instead
of −1."""
REMOVES_EXPIRED_TOKENS = since("3.7", "ExpireDelegationToken can remove an expired token")
TELLS_REMOVAL = until("3.6", "if ExpireDelegationToken removes a token, the response has the requested period").then(
    "3.7", True, "the response to ExpireDelegationToken has the time at which the token was removed"
)

KEY = "delegation.token.secret.key"


def create_delegation_token(request: CreateDelegationTokenRequest, exchange: Exchange) -> CreateDelegationTokenResponse:
    requester = exchange.principal
    owner = requester
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            return _created(ErrorCode.UNKNOWN_SERVER_ERROR, ANONYMOUS, ANONYMOUS)
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    if refused := _refusal(request, exchange, owner):
        return _created(refused, owner, requester)
    if unusable := _unusable(exchange):
        at = 0 if STRICT_TOKENS.of(exchange.cluster.configs.release) else -1
        return _created(unusable, owner, requester, at=at)
    token = _token(request, exchange, owner)
    exchange.cluster.alter_token(token.token_id, token)
    made = _created(ErrorCode.NONE, owner, requester)
    made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms = token.issued_at, token.expires_at, token.most_at
    made.token_id, made.hmac = token.token_id, secret_of(token.token_id, exchange.cluster.configs.text(KEY))
    return made


def _unusable(exchange: Exchange) -> ErrorCode:
    """Returns the error if tokens cannot be created or changed in this cluster, else NONE."""
    configs = exchange.cluster.configs
    if not configs.text(KEY):
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    too_old = is_too_old(configs.release, configs.features, TOKENS_SINCE)
    return ErrorCode.UNSUPPORTED_VERSION if too_old else ErrorCode.NONE


def _is_allowed(session: Session) -> bool:
    """Tells whether a client may create, change and describe tokens.

    A client may not do so if it uses plaintext, if it is anonymous, or if it logged in with a token.
    """
    anonymous = session.protocol is SecurityProtocol.SSL and session.principal == ANONYMOUS
    return not (session.by_token or session.protocol is SecurityProtocol.PLAINTEXT or anonymous)


def _lifetimes(exchange: Exchange) -> Lifetimes:
    """Returns the lifetimes of tokens that the broker's settings allow."""
    configs = exchange.cluster.configs
    return Lifetimes(configs.integer("delegation.token.expiry.time.ms"), configs.integer("delegation.token.max.lifetime.ms"))


def _refusal(request: CreateDelegationTokenRequest, exchange: Exchange, owner: Principal) -> ErrorCode:
    connection = exchange.connection
    if not _is_allowed(connection.session):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    authorizer = exchange.engine.authorizer
    if owner != exchange.principal and not authorizer.may(connection, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def _token(request: CreateDelegationTokenRequest, exchange: Exchange, owner: Principal) -> TokenImage:
    now, lives = exchange.now, _lifetimes(exchange)
    most_at = now + (min(lives.most, request.max_lifetime_ms) if request.max_lifetime_ms > 0 else lives.most)
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    return TokenImage(
        format_uuid(new_uuid(exchange.cluster.random_bytes)), str(owner), str(exchange.principal), renewers,
        now, most_at, min(most_at, now + lives.renewal),
    )  # fmt: skip


def _created(code: ErrorCode, owner: Principal, requester: Principal, at: int = -1) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code, principal_type=owner.kind, principal_name=owner.name, token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name, issue_timestamp_ms=at, expiry_timestamp_ms=at, max_timestamp_ms=at,
        token_id="", hmac=b"",
    )  # fmt: skip


def describe_delegation_token(request: DescribeDelegationTokenRequest, exchange: Exchange) -> Message:
    key = exchange.cluster.configs.text(KEY)
    if not _is_allowed(exchange.connection.session):
        return exchange.refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not key:
        return exchange.refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if request.owners is None else {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    seen = [
        _described(token, key)
        for token in exchange.cluster.tokens
        if (owners is None or not owners.isdisjoint(concerned(token))) and _may_see(token, exchange)
    ]
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=seen)


def _may_see(token: TokenImage, exchange: Exchange) -> bool:
    connection, may = exchange.connection, exchange.engine.authorizer.may
    return (
        str(exchange.principal) in concerned(token)
        or may(connection, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, asked=False)
        or may(connection, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, asked=False)
    )


def _described(token: TokenImage, key: str) -> DescribedDelegationToken:
    (kind, _, name), (requester_kind, _, requester) = token.owner.partition(":"), token.requester.partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=kind, principal_name=name, token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester, issue_timestamp=token.issued_at, expiry_timestamp=token.expires_at,
        max_timestamp=token.most_at, token_id=token.token_id, hmac=secret_of(token.token_id, key),
        renewers=[DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers],
    )  # fmt: skip


def renew_delegation_token(request: RenewDelegationTokenRequest, exchange: Exchange) -> RenewDelegationTokenResponse:
    code, expires_at = _alter(request, exchange)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_at)


def expire_delegation_token(request: ExpireDelegationTokenRequest, exchange: Exchange) -> ExpireDelegationTokenResponse:
    code, expires_at = _alter(request, exchange)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_at)


def _alter(request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest, exchange: Exchange) -> tuple[ErrorCode, int]:
    """Renew the token, let it expire, or remove it. Returns the error and the expiry time of the response."""
    if not _is_allowed(exchange.connection.session):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1
    release, now = exchange.cluster.configs.release, exchange.now
    strict, token = STRICT_TOKENS.of(release), _found(request, exchange)
    if isinstance(token, ErrorCode):
        return token, 0 if strict else -1
    if isinstance(request, RenewDelegationTokenRequest):
        expires_at = _lifetimes(exchange).until(now, token.most_at, request.renew_period_ms, strict=strict)
    elif request.expiry_time_period_ms < 0:
        exchange.cluster.alter_token(token.token_id, None)
        return ErrorCode.NONE, now if TELLS_REMOVAL.of(release) else request.expiry_time_period_ms
    else:
        expires_at = min(token.most_at, now + request.expiry_time_period_ms)
    exchange.cluster.alter_token(token.token_id, token._replace(expires_at=expires_at))
    return ErrorCode.NONE, expires_at


def _found(request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest, exchange: Exchange) -> TokenImage | ErrorCode:
    """Returns the token that the request names, or the error."""
    if unusable := _unusable(exchange):
        return unusable
    configs, now = exchange.cluster.configs, exchange.now
    token = exchange.cluster.tokens.with_secret(bytes(request.hmac), configs.text(KEY))
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    mismatch = not may_renew(token, str(exchange.principal))
    if isinstance(request, RenewDelegationTokenRequest):
        strict = STRICT_TOKENS.of(configs.release)
        # A broker takes at least a millisecond to write to ZooKeeper, so a token that was renewed for 0 ms has expired.
        expired = has_expired(token, now if strict else now + 1) and (strict or not mismatch)
    else:
        removes = request.expiry_time_period_ms < 0 and REMOVES_EXPIRED_TOKENS.of(configs.release)
        expired = has_expired(token, now) and not removes and not mismatch
    if expired:
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH if mismatch else token
