"""InitProducerId, versions 0–5.

Without a transactional id every request gets a new producer id with epoch 0. As in Kafka, a producer id and epoch in the
request are ignored: an idempotent producer either raises its epoch itself or starts over with a new id. With a transactional
id, the producer gets the next epoch. If a transaction of the last epoch is open, the broker aborts it and responds
CONCURRENT_TRANSACTIONS; the repeated request succeeds. A request with a producer id but no epoch, or the reverse, gets
INVALID_REQUEST. In versions 0 to 3, the error INVALID_PRODUCER_EPOCH takes the place of PRODUCER_FENCED.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirebroker.apis.end_txn import epoch_error
from wirebroker.apis.exchange import Exchange
from wirebroker.core.transactions.coordinator import NO_ID_YET, InitRequest, ProducerResult

PRODUCER_FENCED_FROM = 4


def handle(request: InitProducerIdRequest, exchange: Exchange) -> InitProducerIdResponse:
    producer = _init(request, exchange)
    code = epoch_error(producer.code, exchange.version >= PRODUCER_FENCED_FROM)
    return InitProducerIdResponse(error_code=code, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def _init(request: InitProducerIdRequest, exchange: Exchange) -> ProducerResult:
    current = (request.producer_id, request.producer_epoch)
    if (current[0] == -1) != (current[1] == -1):
        return ProducerResult(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        made = exchange.cluster.new_producer_id(exchange.node_id, exchange.now)
        return ProducerResult(NO_ID_YET) if made is None else ProducerResult(ErrorCode.NONE, made, 0)
    requested = InitRequest(
        request.transactional_id, request.transaction_timeout_ms, None if current == (-1, -1) else current,
        exchange.node_id,
    )  # fmt: skip
    return exchange.engine.transactions.init_producer_id(requested, exchange.now)
