"""DescribeAcls, versions 1–3: the ACLs that match a filter. Without an authorizer the response is SECURITY_DISABLED."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_acls import DeleteAclsFilter
from kafkawire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.acls import Filter

UNKNOWN_FILTER = "its filter of ACLs has an unknown type, operation or permission"


def handle(request: DescribeAclsRequest, exchange: Exchange) -> Steps:
    if has_zero(request):
        return exchange.close(UNKNOWN_FILTER)
    if not exchange.engine.authorizer.on:
        message = "No Authorizer is configured on the broker"
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=message, resources=[])
    found: dict[tuple[int, str, int], DescribeAclsResource] = {}
    wanted, pause = filter_of(request), pauses()
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


def has_zero(request: DescribeAclsRequest, _: int = 0) -> bool:
    """Tells whether the filter has the number that Kafka reserves for unknown values."""
    return filter_of(request).has_zero


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    """Returns the filter in a DescribeAcls request, or one of the filters in a DeleteAcls request."""
    return Filter(
        asked.resource_type_filter, asked.resource_name_filter, asked.pattern_type_filter, asked.principal_filter,
        asked.host_filter, asked.operation, asked.permission_type,
    )  # fmt: skip
