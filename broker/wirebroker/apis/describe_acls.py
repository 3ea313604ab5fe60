"""DescribeAcls, versions 1–3: SECURITY_DISABLED, as from a Kafka without an authorizer."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wirebroker.exchange import Exchange


def handle(request: DescribeAclsRequest, exchange: Exchange) -> DescribeAclsResponse:
    """Answer that there is no authorizer."""
    message = "No Authorizer is configured on the broker"
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=message, resources=[])
