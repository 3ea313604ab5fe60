"""CreateDelegationToken, versions 1–3.

A token is for the client itself or, from version 3 on, for another owner. A token for another owner needs CREATE_TOKENS on the
User. If the client uses plaintext or logged in with a token, the response is DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Renewers
must be users. If the level of metadata.version is too low, the response is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from kafkawire.disk.metadata import TokenImage
from kafkawire.errors import ErrorCode
from kafkawire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kafkawire.primitives import format_uuid, new_uuid
from wirebroker.apis.exchange import Exchange
from wirebroker.core.acls import Operation, ResourceType
from wirebroker.core.delegation_tokens import Lifetimes, secret_of
from wirebroker.core.features import TOKENS_SINCE, is_too_old
from wirebroker.core.releases.changes import since
from wirebroker.security.principals import ANONYMOUS, USER, Principal
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.session import Session

STRICT_TOKENS = since("3.6", "RenewDelegationToken with a period of 0 ms uses the default period", "KAFKA-15219")
"""From this release on, if tokens are disabled, or if a request names a wrong token, the response has the expiry time 0 instead
of −1."""

KEY = "delegation.token.secret.key"


def handle(request: CreateDelegationTokenRequest, exchange: Exchange) -> CreateDelegationTokenResponse:
    requester = exchange.connection.session.principal
    owner = requester
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            return _response(ErrorCode.UNKNOWN_SERVER_ERROR, ANONYMOUS, ANONYMOUS)
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    refused = _refusal(request, exchange, owner)
    if refused is not None:
        return _response(refused, owner, requester)
    if unusable := unusable_tokens(exchange):
        at = 0 if STRICT_TOKENS.of(exchange.cluster.configs.release) else -1
        return _response(unusable, owner, requester, at=at)
    token = _token(request, exchange, owner)
    exchange.cluster.alter_token(token.token_id, token)
    made = _response(ErrorCode.NONE, owner, requester)
    made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms = token.issued_at, token.expires_at, token.most_at
    made.token_id, made.hmac = token.token_id, secret_of(token.token_id, exchange.cluster.configs.text(KEY))
    return made


def unusable_tokens(exchange: Exchange) -> ErrorCode:
    """Returns the error if tokens cannot be created or changed in this cluster, else NONE."""
    configs = exchange.cluster.configs
    if not configs.text(KEY):
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    too_old = is_too_old(configs.release, configs.features, TOKENS_SINCE)
    return ErrorCode.UNSUPPORTED_VERSION if too_old else ErrorCode.NONE


def is_allowed(session: Session) -> bool:
    """Tells whether a client may create and describe tokens.

    A client may not do so if it uses plaintext, if it is anonymous, or if it logged in with a token.
    """
    anonymous = session.protocol is SecurityProtocol.SSL and session.principal == ANONYMOUS
    return not (session.by_token or session.protocol is SecurityProtocol.PLAINTEXT or anonymous)


def lifetimes(exchange: Exchange) -> Lifetimes:
    """Returns the lifetimes of tokens that the broker's settings allow."""
    configs = exchange.cluster.configs
    return Lifetimes(configs.integer("delegation.token.expiry.time.ms"), configs.integer("delegation.token.max.lifetime.ms"))


def _refusal(request: CreateDelegationTokenRequest, exchange: Exchange, owner: Principal) -> ErrorCode | None:
    connection = exchange.connection
    if not is_allowed(connection.session):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    authorizer = exchange.engine.authorizer
    if owner != connection.session.principal and not authorizer.may(
        connection, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None


def _token(request: CreateDelegationTokenRequest, exchange: Exchange, owner: Principal) -> TokenImage:
    now, lives = exchange.now, lifetimes(exchange)
    most_at = now + (min(lives.most, request.max_lifetime_ms) if request.max_lifetime_ms > 0 else lives.most)
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    return TokenImage(
        format_uuid(new_uuid(exchange.cluster.random_bytes)), str(owner), str(exchange.connection.session.principal), renewers,
        now, most_at, min(most_at, now + lives.renewal),
    )  # fmt: skip


def _response(code: ErrorCode, owner: Principal, requester: Principal, at: int = -1) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code, principal_type=owner.kind, principal_name=owner.name, token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name, issue_timestamp_ms=at, expiry_timestamp_ms=at, max_timestamp_ms=at,
        token_id="", hmac=b"",
    )  # fmt: skip
