"""DescribeAcls, versions 1–3: the ACLs that match a filter. Without an authorizer the response is SECURITY_DISABLED.

CreateAcls, versions 1–3. Without an authorizer each ACL gets SECURITY_DISABLED.

DeleteAcls, versions 1–3: deletes the ACLs that match filters. Without an authorizer each filter gets SECURITY_DISABLED.
"""

from __future__ import annotations

from enum import IntEnum

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkawire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkawire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.acls import CLUSTER_NAME, KNOWN, WILDCARD, Acl, Filter, Operation, PatternType, Permission, ResourceType
from wirebroker.core.cluster import Cluster
from wirebroker.core.features import METADATA
from wirebroker.core.networks import network
from wirebroker.core.refusals import MOST_RECORDS, TOO_LARGE, Refusal
from wirebroker.core.releases.changes import since

EMPTY_MESSAGES = since("2.5", "if CreateAcls succeeds, its error message is empty instead of null")

UNKNOWN_FILTER = "its filter of ACLs has an unknown type, operation or permission"
NO_AUTHORIZER = "No Authorizer is configured."
NETWORKS_FROM = 32
"""From this metadata.version on, an ACL may name a network."""
TOO_MANY = Refusal(ErrorCode.INVALID_REQUEST, f"Cannot remove more than {MOST_RECORDS} acls in a single delete operation.")


def describe_acls(request: DescribeAclsRequest, exchange: Exchange) -> Steps:
    if has_zero(request):
        return exchange.close(UNKNOWN_FILTER)
    if not exchange.engine.authorizer.on:
        return exchange.refused(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    found: dict[tuple[int, str, int], DescribeAclsResource] = {}
    wanted, pause = _filter_of(request), pauses()
    for acl in list(exchange.cluster.acls.among(wanted)):
        yield from pause()
        if not wanted.matches(acl):
            continue
        place = kind, name, pattern_type = acl.resource_type, acl.name, acl.pattern_type
        if place not in found:
            found[place] = DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern_type, acls=[])
        entry = AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)
        found[place].acls.append(entry)
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message="", resources=list(found.values()))


def has_zero(request: DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest, _: int = 0) -> bool:
    """Tells whether an ACL or a filter has the number that Kafka reserves for unknown values."""
    if isinstance(request, CreateAclsRequest):
        return any(0 in _numbers(creation) for creation in request.creations)
    filters = [request] if isinstance(request, DescribeAclsRequest) else request.filters
    return any(_filter_of(each).has_zero for each in filters)


def _filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    """Returns the filter in a DescribeAcls request, or one of the filters in a DeleteAcls request."""
    return Filter(
        asked.resource_type_filter, asked.resource_name_filter, asked.pattern_type_filter, asked.principal_filter,
        asked.host_filter, asked.operation, asked.permission_type,
    )  # fmt: skip


def create_acls(request: CreateAclsRequest, exchange: Exchange) -> Steps:
    if has_zero(request):
        return exchange.close("its CreateAcls has an ACL of unknown type, operation or permission")
    if not exchange.engine.authorizer.on:
        return _none_created(request, Refusal(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    if any(_is_for_filters(creation) for creation in request.creations):
        return _none_created(request, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR))
    errors: list[str | Refusal | None] = []
    wanted: dict[Acl, None] = {}
    pause = pauses()
    for creation in request.creations:
        yield from pause()
        errors.append(_error(creation) or _host_error(creation.host, exchange.cluster))
        if errors[-1] is None:
            wanted[_acl(creation)] = None
    made = [acl for acl in wanted if acl not in exchange.cluster.acls]
    if len(made) > MOST_RECORDS:
        return _none_created(request, TOO_LARGE)
    exchange.cluster.alter_acls(made, ())
    message = "" if EMPTY_MESSAGES.of(exchange.cluster.configs.release) else None
    return CreateAclsResponse(results=[_created(error, message) for error in errors])


def _none_created(request: CreateAclsRequest, refusal: Refusal) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_created(refusal, None) for _ in request.creations])


def _created(error: str | Refusal | None, message: str | None) -> AclCreationResult:
    """Returns the result of one ACL. `message` is the message of a result without an error."""
    if error is None:
        return AclCreationResult(error_code=ErrorCode.NONE, error_message=message)
    refusal = Refusal(ErrorCode.INVALID_REQUEST, error) if isinstance(error, str) else error
    return AclCreationResult(error_code=refusal.code, error_message=refusal.message)


def _numbers(creation: AclCreation) -> tuple[int, ...]:
    return creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type


def _is_for_filters(creation: AclCreation) -> bool:
    """Tells whether the ACL has values that are allowed only in filters. Kafka fails on such an ACL."""
    return 1 in _numbers(creation) or creation.resource_pattern_type == PatternType.MATCH


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type, creation.resource_name, creation.resource_pattern_type, creation.principal, creation.host,
        creation.operation, creation.permission_type,
    )  # fmt: skip


def _error(creation: AclCreation) -> str | None:
    """Returns why the ACL is invalid, in the words of Kafka's AclControlManager, or None if it is valid."""
    kind, name = creation.resource_type, creation.resource_name
    if kind == ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    kinds: dict[str, type[IntEnum]] = {
        "resourceType": ResourceType, "patternType": PatternType, "operation": Operation, "permissionType": Permission,
    }  # fmt: skip
    for (what, names), number in zip(kinds.items(), _numbers(creation), strict=True):
        if number not in KNOWN[names]:
            return f"Invalid {what} UNKNOWN"
    if ":" not in creation.principal:
        missing = "(no colon is present separating the principal type from the principal name)"
        return f"Could not parse principal from `{creation.principal}` {missing}"
    return None


def _host_error(host: str, cluster: Cluster) -> str | Refusal | None:
    """Returns why the ACL's host is invalid, in Kafka's words, or None. Kafka before 4.4 accepts any text as a host."""
    if not cluster.acls.networks or host == WILDCARD:
        return None
    if not host:
        return "Host pattern cannot be null or empty"
    if "/" not in host:
        return None
    if cluster.configs.features[METADATA] < NETWORKS_FROM:
        message = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, message)
    try:
        network(host)
    except ValueError as wrong:
        return f"Invalid CIDR notation '{host}': {wrong}"
    return None


def delete_acls(request: DeleteAclsRequest, exchange: Exchange) -> Steps:
    if has_zero(request):
        return exchange.close(UNKNOWN_FILTER)
    if not exchange.engine.authorizer.on:
        return _refused(request, Refusal(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    results: list[DeleteAclsFilterResult] = []
    deleted: dict[Acl, None] = {}
    meant: dict[Filter, list[Acl]] = {}
    pause = pauses()
    for each in map(_filter_of, request.filters):
        yield from pause()
        if (unknown := each.unknown_part) is not None:
            results.append(_not_deleted(Refusal(ErrorCode.INVALID_REQUEST, f"Unknown {unknown}.")))
            continue
        if each not in meant:
            meant[each] = exchange.cluster.acls.meant_by(each)
        for acl in (found := meant[each]):
            if len(deleted) >= MOST_RECORDS:
                return _refused(request, TOO_MANY)
            deleted[acl] = None
        results.append(_deleted(found))
        if len(found) > 1:
            yield None
    exchange.cluster.alter_acls((), list(deleted))
    return DeleteAclsResponse(filter_results=results)


def _refused(request: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_not_deleted(refusal) for _ in request.filters])


def _not_deleted(refusal: Refusal) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=refusal.code, error_message=refusal.message, matching_acls=[])


def _deleted(deleted: list[Acl]) -> DeleteAclsFilterResult:
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
