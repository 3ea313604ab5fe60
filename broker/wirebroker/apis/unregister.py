"""UnregisterBroker, version 0.

A request for a broker that is not registered, or is already unregistered, gets BROKER_ID_NOT_REGISTERED. A stopped broker
registers again when it starts. If a broker is unregistered while it runs, it keeps running. But until it restarts, it leads no
partition and is not in the metadata.

UnregisterController, version 0.

In wirebroker all brokers are controllers. The active controller refuses to unregister itself (INVALID_REQUEST). A running
controller registers again at once, and a stopped controller registers again when it starts. Any other id gets
CONTROLLER_ID_NOT_REGISTERED.
"""

from __future__ import annotations

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kafkawire.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from wirebroker.apis.exchange import Exchange
from wirebroker.core.features import METADATA

SINCE = 33
"""From this metadata.version on, controllers can be unregistered."""


def unregister_broker(request: UnregisterBrokerRequest, exchange: Exchange) -> UnregisterBrokerResponse:
    broker = exchange.cluster.brokers.get(request.broker_id)
    if broker is None or not broker.registered:
        message = f"Broker ID {request.broker_id} is not currently registered"
        return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
    exchange.engine.controller.unregister(request.broker_id, exchange.now)
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message="")


def unregister_controller(request: UnregisterControllerRequest, exchange: Exchange) -> Message:
    node_id, cluster = request.controller_id, exchange.cluster
    known = cluster.brokers.get(node_id)
    if node_id == min(each for each, broker in cluster.brokers.items() if broker.running):
        return exchange.refused(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if cluster.configs.features[METADATA] < SINCE:
        message = "The current MetadataVersion is too old to support controller unregistration."
        return exchange.refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if known is None or not known.in_quorum:
        return exchange.refused(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {node_id} is not currently registered.")
    known.in_quorum = known.running
    return UnregisterControllerResponse(error_code=ErrorCode.NONE, error_message="")
