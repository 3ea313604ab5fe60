"""AddPartitionsToTxn, versions 0–5.

A client adds partitions to its one transaction (versions 0 to 3); brokers ask for several transactions at once, and may
only want to know whether the partitions are in (from version 4). All partitions are added or none: if one does not
exist, the others are OPERATION_NOT_ATTEMPTED. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.errors import ErrorCode
from kafkawire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from wirebroker.apis.end_txn import PRODUCER_FENCED_FROM, epoch_error
from wirebroker.core.transactions.transaction import BUMPS_EPOCH, TopicPartition
from wirebroker.exchange import Exchange

BATCHED_FROM = 4

Codes = Mapping[TopicPartition, ErrorCode]


def handle(request: AddPartitionsToTxnRequest, exchange: Exchange) -> AddPartitionsToTxnResponse:
    """Answer each partition of each transaction."""
    if exchange.version >= BATCHED_FROM:
        topics: dict[str, list[AddPartitionsToTxnTopic]] = {}
        for asked in request.transactions:  # Kafka goes by the first, where one is named twice
            topics.setdefault(asked.transactional_id, asked.topics)
        results = [
            AddPartitionsToTxnResult(
                transactional_id=asked.transactional_id,
                topic_results=_results(_codes(asked, topics[asked.transactional_id], exchange)),
            )
            for asked in request.transactions
        ]
        return AddPartitionsToTxnResponse(error_code=ErrorCode.NONE, results_by_transaction=results)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(_codes(asked, asked.topics, exchange)))


def _codes(
    asked: AddPartitionsToTxnTransaction, topics: Iterable[AddPartitionsToTxnTopic], exchange: Exchange
) -> Codes:
    wanted = list(dict.fromkeys(_partitions(topics)))
    absent = [each for each in wanted if exchange.cluster.partition(*each) is None]
    if absent:
        codes = dict.fromkeys(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return codes | dict.fromkeys(absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    transactions = exchange.engine.transactions
    who = (asked.transactional_id, asked.producer_id, asked.producer_epoch)
    if asked.transactional_id and (fault := transactions.here(asked.transactional_id, exchange.node_id)):
        return dict.fromkeys(wanted, fault)
    if asked.verify_only:
        return transactions.verify_partitions(*who, wanted)
    version = BUMPS_EPOCH if exchange.version >= BATCHED_FROM else 0
    code = transactions.add_partitions(*who, wanted, version, exchange.now)
    return dict.fromkeys(wanted, epoch_error(code, exchange.version >= PRODUCER_FENCED_FROM))


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    for topic in topics:
        for index in topic.partitions:
            yield topic.name, index


def _results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name=name, results_by_partition=[]))
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topic.results_by_partition.append(result)
    return list(topics.values())
