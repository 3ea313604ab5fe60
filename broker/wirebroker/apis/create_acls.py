"""CreateAcls, versions 1–3: SECURITY_DISABLED for each, as from a Kafka without an authorizer."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from wirebroker.exchange import Exchange

NO_AUTHORIZER = "No Authorizer is configured."


def handle(request: CreateAclsRequest, exchange: Exchange) -> CreateAclsResponse:
    """Answer that there is no authorizer."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused for _ in request.creations])
