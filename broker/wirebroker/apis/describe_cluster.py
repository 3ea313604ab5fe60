"""DescribeCluster, versions 0–2.

DescribeCluster returns the brokers, with their addresses on the listener of the request. wirebroker has no endpoints of
controllers: a request for them (version 1) gets MISMATCHED_ENDPOINT_TYPE. A stopped broker is fenced: the response lists this
broker only if the request asks for fenced brokers, too (version 2).
"""

from __future__ import annotations

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from wirebroker.apis.exchange import Exchange
from wirebroker.apis.metadata import ALL_CLUSTER_OPERATIONS, NOT_REQUESTED

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, exchange: Exchange) -> Message:
    if request.endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return exchange.refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, message)
    if request.endpoint_type != BROKERS:
        return exchange.refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    cluster = exchange.cluster
    brokers = []
    shown = cluster.registered_brokers if request.include_fenced_brokers else cluster.live_brokers
    for broker in shown.values():
        host, port = broker.address(exchange.connection.listener)
        brokers.append(
            DescribeClusterBroker(broker_id=broker.node_id, host=host, port=port, rack=broker.rack, is_fenced=not broker.alive)
        )
    requested = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=brokers,
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS if requested else NOT_REQUESTED,
    )
