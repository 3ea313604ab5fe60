"""DeleteAcls, versions 1–3: SECURITY_DISABLED for each filter, as from a Kafka without an authorizer."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from wirebroker.apis.create_acls import NO_AUTHORIZER
from wirebroker.exchange import Exchange


def handle(request: DeleteAclsRequest, exchange: Exchange) -> DeleteAclsResponse:
    """Answer that there is no authorizer."""
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[])
    return DeleteAclsResponse(filter_results=[refused for _ in request.filters])
