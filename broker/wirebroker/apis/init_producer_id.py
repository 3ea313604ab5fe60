"""InitProducerId, versions 0–5.

Without a transactional id every call hands out a new producer id with epoch 0; a producer id and epoch in the request
are ignored, as in Kafka, where an idempotent producer that wants a higher epoch either counts it up by itself or starts
over with a new id. With one, the producer gets the next epoch, and an open transaction of the last one is aborted: then
the answer is CONCURRENT_TRANSACTIONS, and asking again succeeds. Only one of producer id and epoch being set is
INVALID_REQUEST. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 4.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirebroker.core.transactions.coordinator import NO_ID_YET, InitAsked, Producer
from wirebroker.exchange import Exchange

PRODUCER_FENCED_FROM = 4


def handle(request: InitProducerIdRequest, exchange: Exchange) -> InitProducerIdResponse:
    """Answer with a producer id and epoch."""
    producer = _init(request, exchange)
    code = producer.code
    if code == ErrorCode.PRODUCER_FENCED and exchange.version < PRODUCER_FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def _init(request: InitProducerIdRequest, exchange: Exchange) -> Producer:
    current = (request.producer_id, request.producer_epoch)
    if (current[0] == -1) != (current[1] == -1):
        return Producer(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        made = exchange.cluster.new_producer_id(exchange.node_id, exchange.now)
        return Producer(NO_ID_YET) if made is None else Producer(ErrorCode.NONE, made, 0)
    asked = InitAsked(
        request.transactional_id, request.transaction_timeout_ms, None if current == (-1, -1) else current,
        exchange.node_id,
    )  # fmt: skip
    return exchange.engine.transactions.init_producer_id(asked, exchange.now)
