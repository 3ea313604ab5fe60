"""AddOffsetsToTxn, versions 0–4: the group's partition of __consumer_offsets joins the transaction."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wirebroker.apis.end_txn import PRODUCER_FENCED_FROM, epoch_error
from wirebroker.apis.exchange import Exchange
from wirebroker.core.cluster import GROUP_TOPIC


def handle(request: AddOffsetsToTxnRequest, exchange: Exchange) -> AddOffsetsToTxnResponse:
    """Add the group's partition of __consumer_offsets to the transaction, or respond with the error."""
    code = _add(request, exchange)
    return AddOffsetsToTxnResponse(error_code=epoch_error(code, exchange.version >= PRODUCER_FENCED_FROM))


def _add(request: AddOffsetsToTxnRequest, exchange: Exchange) -> ErrorCode:
    transactions = exchange.engine.transactions
    if error := transactions.coordinator_error(request.transactional_id, exchange.node_id):
        return error
    home = exchange.engine.groups.home(request.group_id)
    return transactions.add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, [(GROUP_TOPIC, home)], 0, exchange.now
    )
