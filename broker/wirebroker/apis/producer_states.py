"""DescribeTransactions, version 0: the states of transactional ids, from their coordinator.

ListTransactions, versions 0–2: the transactional ids that this broker coordinates.

Filters are state, producer id, duration (version 1), and a regular expression (version 2). If the filter names states that do
not exist, the response lists these states.

DescribeProducers, version 0.

DescribeProducers returns the states of producers on a partition. The states decide which batches are duplicates, and which
batches leave gaps. Without an open transaction, the start of the transaction is −1. Before the first end marker, the
coordinator epoch is −1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
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
from wirebroker.core.leadership import leader_error
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition
from wirebroker.core.patterns import PatternError, compile_pattern
from wirebroker.core.producers import unpack
from wirebroker.core.refusals import UNKNOWN_PARTITION
from wirebroker.core.releases.changes import since
from wirebroker.core.transactions.states import TransactionState
from wirebroker.core.transactions.transaction import TopicPartition, Transaction

MATCHED_AT_ONCE = 16
"""The number of transactional ids that a slice matches with a regular expression. One match can take a millisecond."""

EXPLAINS_PRODUCERS = since("3.0", "errors of DescribeProducers have a message")


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


def describe_producers(request: DescribeProducersRequest, exchange: Exchange) -> Steps:
    pause = pauses()
    topics = []
    known: dict[tuple[str, int], PartitionResponse] = {}
    for topic in request.topics:
        described: list[PartitionResponse] = []
        topics.append(TopicResponse(name=topic.name, partitions=described))
        for index in topic.partition_indexes:
            yield from pause()
            if (topic.name, index) in known:
                described.append(known[topic.name, index])
                continue
            partition, response = _found(topic.name, index, exchange)
            for key, packed in list(partition.producers.items()) if partition is not None else ():
                yield from pause()
                if isinstance(key, int):
                    response.active_producers.append(_producer(key, packed))
            described.append(response)
            known[topic.name, index] = response
        yield from pause()
    return DescribeProducersResponse(topics=topics)


def _found(topic: str, index: int, exchange: Exchange) -> tuple[Partition | None, PartitionResponse]:
    """Returns two values: the partition (None if this broker cannot describe it), and the partition's entry in the response,
    which has no producers yet."""
    response = PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=[])
    explains = EXPLAINS_PRODUCERS.of(exchange.cluster.configs.release)
    error = topic_name_error(topic)
    if explains and error is not None:
        response.error_code, response.error_message = ErrorCode.INVALID_TOPIC_EXCEPTION, error
        return None, response
    if topic not in exchange.cluster.topics:
        response.error_code = UNKNOWN_PARTITION.code
        response.error_message = UNKNOWN_PARTITION.message if explains else None
        return None, response
    partition = exchange.cluster.partition(topic, index)
    response.error_code = leader_error(partition, exchange.node_id, or_follower=True)
    return None if response.error_code else partition, response


def _producer(producer_id: int, packed: bytes) -> ProducerState:
    state = unpack(packed)
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.current_txn_first_offset,
    )
