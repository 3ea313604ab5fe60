"""UnregisterBroker, version 0.

A request for a broker that is not registered, or is already unregistered, gets BROKER_ID_NOT_REGISTERED. A stopped broker
registers again when it starts. If a broker is unregistered while it runs, it keeps running. But until it restarts, it leads no
partition and is not in the metadata.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from wirebroker.apis.exchange import Exchange


def handle(request: UnregisterBrokerRequest, exchange: Exchange) -> UnregisterBrokerResponse:
    broker = exchange.cluster.brokers.get(request.broker_id)
    if broker is None or not broker.registered:
        message = f"Broker ID {request.broker_id} is not currently registered"
        return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
    exchange.engine.controller.unregister(request.broker_id, exchange.now)
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message="")
