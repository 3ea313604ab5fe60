"""DescribeTransactions, version 0: the states of transactional ids, from their coordinator.

ListTransactions, versions 0–2: the transactional ids that this broker coordinates.

Filters are state, producer id, duration (version 1), and a regular expression (version 2). If the filter names states that do
not exist, the response lists these states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from kafkawire.messages.describe_transactions import TransactionState as DescribedTransaction
from kafkawire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafkawire.messages.list_transactions import TransactionState as ListedTransaction
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, pauses
from wirebroker.core.patterns import PatternError, compile_pattern
from wirebroker.core.transactions.states import TransactionState
from wirebroker.core.transactions.transaction import TopicPartition, Transaction

MATCHED_AT_ONCE = 16
"""The number of transactional ids that a slice matches with a regular expression. One match can take a millisecond."""


def describe_transactions(request: DescribeTransactionsRequest, exchange: Exchange) -> Steps:
    pause_for_id, pause = pauses(IDS), pauses()
    known: dict[str, DescribedTransaction] = {}
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


def _state(transactional_id: str, exchange: Exchange) -> tuple[DescribedTransaction, list[TopicPartition]]:
    transactions = exchange.engine.transactions
    if not transactional_id:
        return _error(transactional_id, ErrorCode.INVALID_REQUEST), []
    if error := transactions.coordinator_error(transactional_id, exchange.node_id):
        return _error(transactional_id, error), []
    transaction = transactions.transactions.get(transactional_id)
    if transaction is None:
        return _error(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), []
    state = DescribedTransaction(
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


def _error(transactional_id: str, code: ErrorCode) -> DescribedTransaction:
    return DescribedTransaction(
        error_code=code, transactional_id=transactional_id, transaction_state="", transaction_timeout_ms=0,
        transaction_start_time_ms=0, producer_id=0, producer_epoch=0, topics=[],
    )  # fmt: skip


def list_transactions(request: ListTransactionsRequest, exchange: Exchange) -> Steps:
    try:
        pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except PatternError:
        return exchange.refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
    known = {state.value for state in TransactionState}
    transactions = exchange.engine.transactions
    fits = _filter(request, exchange.now)
    pause = pauses(IDS) if pattern is None else pauses(MATCHED_AT_ONCE)
    listed = []
    for transaction in list(transactions.transactions.values()):
        yield from pause()
        transactional_id = transaction.transactional_id
        if transactions.coordinator_error(transactional_id, exchange.node_id) or not fits(transaction):
            continue
        if pattern is None or pattern.matches(transactional_id):
            state = transaction.state.value
            listed.append(
                ListedTransaction(
                    transactional_id=transactional_id, producer_id=transaction.producer_id, transaction_state=state
                )
            )
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in known]
    return ListTransactionsResponse(error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=listed)


def _filter(request: ListTransactionsRequest, now: int) -> Callable[[Transaction], bool]:
    producer_ids, states = set(request.producer_id_filters), set(request.state_filters)

    def fits(transaction: Transaction) -> bool:
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if states and transaction.state.value not in states:
            return False
        return request.duration_filter < 0 or now - transaction.started > request.duration_filter

    return fits
