"""ListTransactions, versions 0–2: the transactional ids that this broker coordinates.

By state, producer id, how long the transaction has been open (version 1), and a regular expression (version 2). States
that do not exist are named in the answer.
"""

from __future__ import annotations

import re

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from wirebroker.core.transactions.states import State
from wirebroker.core.transactions.transaction import Transaction
from wirebroker.exchange import Exchange


def handle(request: ListTransactionsRequest, exchange: Exchange) -> ListTransactionsResponse:
    """List them."""
    try:
        pattern = re.compile(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except re.error:
        code = ErrorCode.INVALID_REGULAR_EXPRESSION
        return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])
    known = {state.value for state in State}
    transactions = exchange.engine.transactions
    listed = [
        TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.value,
        )
        for transaction in transactions.transactions.values()
        if not transactions.here(transaction.transactional_id, exchange.node_id)
        and _fits(transaction, request, exchange.now)
        and (pattern is None or pattern.fullmatch(transaction.transactional_id))
    ]
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in known]
    return ListTransactionsResponse(error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=listed)


def _fits(transaction: Transaction, request: ListTransactionsRequest, now: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.value not in request.state_filters:
        return False
    return request.duration_filter < 0 or now - transaction.started > request.duration_filter
