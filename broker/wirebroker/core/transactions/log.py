"""What is written down of transactions: the records of __transaction_state, in Kafka's format (TransactionLog)."""

from __future__ import annotations

from collections import defaultdict

from kafkawire.batches import Record, build_batch
from kafkawire.coordinator_log import key_bytes, value_bytes
from kafkawire.coordinator_records.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from wirebroker.core.transactions.states import State
from wirebroker.core.transactions.transaction import Transaction

VALUE_VERSION = 1


def transaction_batch(transaction: Transaction, now: int) -> bytes:
    """The batch of one record that says how the transactional id stands; a dead one is deleted by it."""
    key = key_bytes(TransactionLogKey(transactional_id=transaction.transactional_id))
    value = None if transaction.state is State.DEAD else value_bytes(_value(transaction), VALUE_VERSION)
    return build_batch([Record(0, 0, key, value)], base_timestamp=now)


def _value(transaction: Transaction) -> TransactionLogValue:
    partitions: list[PartitionsSchema] | None = None
    if transaction.state is not State.EMPTY:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, index in sorted(transaction.partitions):
            by_topic[topic].append(index)
        partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated,
        transaction_start_timestamp_ms=transaction.started,
        client_transaction_version=transaction.client_version,
    )
