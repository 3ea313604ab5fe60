"""EndTxn, versions 0–5: commit or abort.

The markers are written before the response is sent. From version 5 (transaction version 2) the response has the producer's next
epoch. In versions 0 and 1, the error INVALID_PRODUCER_EPOCH takes the place of PRODUCER_FENCED.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.end_txn import EndTxnRequest, EndTxnResponse
from wirebroker.apis.exchange import Exchange
from wirebroker.core.transactions.coordinator import EndRequest, ProducerResult

PRODUCER_FENCED_FROM = 2
BUMPS_EPOCH_FROM = 5


def handle(request: EndTxnRequest, exchange: Exchange) -> EndTxnResponse:
    transactions = exchange.engine.transactions
    requested = EndRequest(
        request.transactional_id, request.producer_id, request.producer_epoch, request.committed,
        2 if exchange.version >= BUMPS_EPOCH_FROM else 0,
    )  # fmt: skip
    error = transactions.coordinator_error(requested.transactional_id, exchange.node_id)
    producer = ProducerResult(error) if error else transactions.end(requested, exchange.now)
    return EndTxnResponse(
        error_code=epoch_error(producer.code, exchange.version >= PRODUCER_FENCED_FROM),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )


def epoch_error(code: ErrorCode, understood: bool) -> ErrorCode:
    """Returns INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED for old clients, which do not know PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED and not understood else code
