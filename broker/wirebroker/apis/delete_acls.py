"""DeleteAcls, versions 1–3: deletes the ACLs that filters mean. SECURITY_DISABLED for each without an authorizer."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from wirebroker.apis.create_acls import NO_AUTHORIZER
from wirebroker.apis.describe_acls import UNKNOWN_FILTER, filter_of
from wirebroker.core.acls import Acl
from wirebroker.effects import Outcome
from wirebroker.exchange import Exchange


def handle(request: DeleteAclsRequest, exchange: Exchange) -> DeleteAclsResponse | Outcome:
    """Delete the ACLs; for each filter those that it means."""
    if not exchange.engine.authorizer.on:
        refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[])
        return DeleteAclsResponse(filter_results=[refused for _ in request.filters])
    wanted = [filter_of(each) for each in request.filters]
    if any(each.is_unknown for each in wanted):
        return exchange.close(UNKNOWN_FILTER)
    found = [[acl for acl in exchange.cluster.acls if each.matches(acl)] for each in wanted]
    exchange.cluster.alter_acls((), [acl for each in found for acl in each])
    return DeleteAclsResponse(filter_results=[_result(each) for each in found])


def _result(deleted: list[Acl]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=ErrorCode.NONE, error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_code=ErrorCode.NONE, error_message=None, resource_type=acl.resource_type, resource_name=acl.name,
                pattern_type=acl.pattern_type, principal=acl.principal, host=acl.host, operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in deleted
        ],
    )  # fmt: skip
