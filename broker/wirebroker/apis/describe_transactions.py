"""DescribeTransactions, version 0: the states of transactional ids, from their coordinator."""

from __future__ import annotations

from collections import defaultdict

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, pauses
from wirebroker.core.transactions.transaction import TopicPartition


def handle(request: DescribeTransactionsRequest, exchange: Exchange) -> Steps:
    pause_for_id, pause = pauses(IDS), pauses()
    known: dict[str, TransactionState] = {}
    for transactional_id in dict.fromkeys(request.transactional_ids):
        yield from pause_for_id()
        state, partitions = _state(transactional_id, exchange)
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, index in partitions:
            yield from pause()
            topics[topic].append(index)
        state.topics = [TopicData(topic=topic, partitions=sorted(topics[topic])) for topic in sorted(topics)]
        known[transactional_id] = state
    if len(known) < len(request.transactional_ids):  # a response that repeats ids may be long, so a thread encodes it
        yield None
    return DescribeTransactionsResponse(transaction_states=[known[each] for each in request.transactional_ids])


def _state(transactional_id: str, exchange: Exchange) -> tuple[TransactionState, list[TopicPartition]]:
    transactions = exchange.engine.transactions
    if not transactional_id:
        return _error(transactional_id, ErrorCode.INVALID_REQUEST), []
    if error := transactions.coordinator_error(transactional_id, exchange.node_id):
        return _error(transactional_id, error), []
    transaction = transactions.transactions.get(transactional_id)
    if transaction is None:
        return _error(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), []
    state = TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[],
    )
    return state, list(transaction.partitions)


def _error(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(
        error_code=code, transactional_id=transactional_id, transaction_state="", transaction_timeout_ms=0,
        transaction_start_time_ms=0, producer_id=0, producer_epoch=0, topics=[],
    )  # fmt: skip
