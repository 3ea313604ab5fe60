"""InitProducerId, versions 0–5, without a transactional id.

Every call hands out a new producer id with epoch 0; a producer id and epoch in the request are ignored, as in Kafka,
where an idempotent producer that wants a higher epoch either counts it up by itself or starts over with a new id. Only
one of the two being set is INVALID_REQUEST. A transactional id needs the transaction coordinator, which this broker
does not have: it answers as a broker that does not coordinate it, NOT_COORDINATOR.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirebroker.exchange import Exchange


def handle(request: InitProducerIdRequest, exchange: Exchange) -> InitProducerIdResponse:
    """Answer with a new producer id."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.NOT_COORDINATOR)
    producer_id = exchange.cluster.producer_ids.allocate(exchange.node_id)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
