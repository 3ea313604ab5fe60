"""DescribeDelegationToken, versions 1–3.

A client sees the tokens that it owns, that it requested, or that it may renew. To see other tokens, the client needs DESCRIBE
on the DelegationToken, or DESCRIBE_TOKENS on the owner. An empty list of owners selects no tokens, and null selects all.
"""

from __future__ import annotations

from kafkawire.disk.metadata import TokenImage
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from wirebroker.apis.create_delegation_token import KEY, is_allowed
from wirebroker.apis.exchange import Exchange
from wirebroker.core.acls import Operation, ResourceType
from wirebroker.core.delegation_tokens import concerned, secret_of


def handle(request: DescribeDelegationTokenRequest, exchange: Exchange) -> DescribeDelegationTokenResponse:
    key = exchange.cluster.configs.text(KEY)
    if not is_allowed(exchange.connection.session):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, tokens=[])
    if not key:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, tokens=[])
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
        str(connection.session.principal) in concerned(token)
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
