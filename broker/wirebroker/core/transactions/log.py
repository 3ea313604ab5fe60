"""The records of __transaction_state, in Kafka's format (TransactionLog)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kafkawire.batches import Record, build_batch, iter_records, read_header
from kafkawire.coordinator_log import CoordinatorRecord, read_record
from kafkawire.coordinator_records import TRANSACTION_RECORDS
from kafkawire.coordinator_records.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kafkawire.errors import ProtocolError
from wirebroker.core.cluster import GROUP_TOPIC
from wirebroker.core.java_order import buckets_for, hash_order, java_hash, partition_hash
from wirebroker.core.transactions.states import TransactionState
from wirebroker.core.transactions.transaction import NO_EPOCH, Transaction


def value_version(level: int) -> int:
    """Returns the version of the records of __transaction_state if transaction.version has this level."""
    return min(level, 1)


def transaction_batch(transaction: Transaction, level: int, now: int) -> bytes:
    """Returns a batch with one record: the state of the transactional id, or a tombstone if the state is DEAD. Raises
    EncodeError."""
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    value = None if transaction.state is TransactionState.DEAD else _value(transaction)
    return build_batch([Record(0, 0, *CoordinatorRecord(key, value, value_version(level)).encode())], base_timestamp=now)


def _value(transaction: Transaction) -> TransactionLogValue:
    partitions: list[PartitionsSchema] | None = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic: dict[str, list[int]] = defaultdict(list)
        held = transaction.partitions
        for topic, index in hash_order(sorted(held), partition_hash, buckets_for(len(held))):
            by_topic[topic].append(index)
        in_turn = sorted(by_topic, key=lambda topic: (topic == GROUP_TOPIC, topic))  # a producer adds offsets last
        topics = hash_order(in_turn, java_hash, buckets_for(len(by_topic)))
        partitions = [PartitionsSchema(topic=topic, partition_ids=by_topic[topic]) for topic in topics]
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


def read_transactions(batches: Iterable[memoryview], transactions: dict[str, Transaction]) -> None:
    """Load the batches of a partition of __transaction_state into `transactions`. Raises ProtocolError.

    Only the last record of each key is decoded, because a log can have thousands of records of one transactional id.
    """
    latest: dict[bytes, bytes] = {}
    for batch in batches:
        if read_header(batch).is_control:
            continue
        for record in iter_records(batch):
            key = bytes(record.key or b"")
            if record.value is None:
                latest.pop(key, None)
            else:
                latest[key] = bytes(record.value)
    for key, value in latest.items():
        read = read_record(TRANSACTION_RECORDS, key, value)
        if read is not None and isinstance(read.key, TransactionLogKey) and isinstance(read.value, TransactionLogValue):
            transactional_id = read.key.transactional_id
            transactions[transactional_id] = _transaction(transactional_id, read.value)


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    states = {state.number: state for state in TransactionState}
    if value.transaction_status not in states:
        raise ProtocolError(f"{transactional_id} is in the unknown state {value.transaction_status}")
    return Transaction(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        state=states[value.transaction_status],
        producer_epoch=value.producer_epoch,
        last_producer_epoch=NO_EPOCH,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        partitions={(topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids},
        started=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
    )
