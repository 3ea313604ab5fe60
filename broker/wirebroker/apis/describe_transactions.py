"""DescribeTransactions, version 0: where transactional ids stand, as their coordinator knows."""

from __future__ import annotations

from collections import defaultdict

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from wirebroker.exchange import Exchange


def handle(request: DescribeTransactionsRequest, exchange: Exchange) -> DescribeTransactionsResponse:
    """Describe each transactional id."""
    return DescribeTransactionsResponse(transaction_states=[_one(each, exchange) for each in request.transactional_ids])


def _one(transactional_id: str, exchange: Exchange) -> TransactionState:
    transactions = exchange.engine.transactions
    if not transactional_id:
        return _fault(transactional_id, ErrorCode.INVALID_REQUEST)
    if fault := transactions.here(transactional_id, exchange.node_id):
        return _fault(transactional_id, fault)
    transaction = transactions.transactions.get(transactional_id)
    if transaction is None:
        return _fault(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(transaction.partitions):
        topics[topic].append(index)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def _fault(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(
        error_code=code, transactional_id=transactional_id, transaction_state="", transaction_timeout_ms=0,
        transaction_start_time_ms=0, producer_id=0, producer_epoch=0, topics=[],
    )  # fmt: skip
