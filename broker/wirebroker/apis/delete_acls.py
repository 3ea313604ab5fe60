"""DeleteAcls, versions 1–3: deletes the ACLs that match filters. Without an authorizer each filter gets SECURITY_DISABLED."""

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
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.acls import Acl, Filter
from wirebroker.core.refusals import MOST_RECORDS, Refusal

TOO_MANY = Refusal(ErrorCode.INVALID_REQUEST, f"Cannot remove more than {MOST_RECORDS} acls in a single delete operation.")


def handle(request: DeleteAclsRequest, exchange: Exchange) -> Steps:
    if has_zero(request):
        return exchange.close(UNKNOWN_FILTER)
    if not exchange.engine.authorizer.on:
        return _refused(request, Refusal(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    results: list[DeleteAclsFilterResult] = []
    deleted: dict[Acl, None] = {}
    meant: dict[Filter, list[Acl]] = {}
    pause = pauses()
    for each in map(filter_of, request.filters):
        yield from pause()
        if (unknown := each.unknown_part) is not None:
            results.append(_unknown(unknown))
            continue
        if each not in meant:
            meant[each] = exchange.cluster.acls.meant_by(each)
        for acl in (found := meant[each]):
            if len(deleted) >= MOST_RECORDS:
                return _refused(request, TOO_MANY)
            deleted[acl] = None
        results.append(_result(found))
        if len(found) > 1:
            yield None
    exchange.cluster.alter_acls((), list(deleted))
    return DeleteAclsResponse(filter_results=results)


def has_zero(request: DeleteAclsRequest, _: int = 0) -> bool:
    """Tells whether a filter has the number that Kafka reserves for unknown values."""
    return any(filter_of(each).has_zero for each in request.filters)


def _refused(request: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=refusal.code, error_message=refusal.message, matching_acls=[])
    return DeleteAclsResponse(filter_results=[result for _ in request.filters])


def _unknown(part: str) -> DeleteAclsFilterResult:
    message = f"Unknown {part}."
    return DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=message, matching_acls=[])


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
