"""Before a leader stores a batch of a transaction, the leader asks the transaction coordinator to verify the transaction
(KIP-890).

A client that uses transaction version 0 or 1 adds partitions to its transaction itself, and the partition's leader verifies
that the partition was added. For a client that uses transaction version 2, the leader asks the coordinator to add the
partition. The rules come from Kafka's AddPartitionsToTxnManager and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from kafkawire.errors import ErrorCode
from wirebroker.core.cluster import Cluster
from wirebroker.core.partition import VERIFIES_EPOCHS, Partition
from wirebroker.core.transactions.coordinator import TransactionCoordinator
from wirebroker.core.transactions.transaction import BUMPS_EPOCH, TopicPartition


class Speaks(Enum):
    """The features that a client supports, according to the version of its Produce request."""

    OLD_ERRORS = "the client adds partitions itself, and does not understand TRANSACTION_ABORTABLE"
    NEW_ERRORS = "the client adds partitions itself"
    IMPLICIT_ADDS = "transaction version 2: the leader of a partition adds the partition"


class TransactionalProducer(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    speaks: Speaks


class Verified(NamedTuple):
    """The result of `verify`. `first_writes` are the partitions to which the producer may now write the first batch of its
    transaction. Before Kafka 4.0, a transaction may already be open; then this batch may be the first batch of another epoch.

    If a partition is in neither `first_writes` nor `errors`, the transaction is already open on it.
    """

    first_writes: frozenset[TopicPartition]
    errors: dict[TopicPartition, ErrorCode]


def verify(
    producer: TransactionalProducer, batches: Sequence[tuple[Partition, int]], coordinator: TransactionCoordinator,
    cluster: Cluster, now: int,
) -> Verified:  # fmt: skip
    """Ask the coordinator to verify those partitions that need verification. `batches` has the partition and the base sequence
    of each batch."""
    adds = producer.speaks is Speaks.IMPLICIT_ADDS
    if not adds and not cluster.configs.value("transaction.partition.verification.enable"):
        return Verified(frozenset((part.topic, part.index) for part, _ in batches), {})
    errors: dict[TopicPartition, ErrorCode] = {}
    requested: list[TopicPartition] = []
    is_open: list[TopicPartition] = []
    for partition, sequence in batches:
        where = (partition.topic, partition.index)
        started = partition.start_verification(producer.producer_id, sequence, producer.producer_epoch, adds, now)
        if isinstance(started, ErrorCode):
            errors[where] = started
        elif started is not None:
            requested.append(where)
        elif not VERIFIES_EPOCHS.of(partition.configs.release):
            is_open.append(where)
    responses = _ask(producer, requested, coordinator, cluster, now) if requested else {}
    errors |= {where: _error_for(code, producer.speaks) for where, code in responses.items() if code}
    return Verified(frozenset([*is_open, *(where for where, code in responses.items() if not code)]), errors)


def _ask(
    producer: TransactionalProducer, requested: Sequence[TopicPartition], coordinator: TransactionCoordinator,
    cluster: Cluster, now: int,
) -> dict[TopicPartition, ErrorCode]:  # fmt: skip
    who = (producer.transactional_id, producer.producer_id, producer.producer_epoch)
    if cluster.coordinator("transaction", producer.transactional_id) is None:
        return dict.fromkeys(requested, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if producer.speaks is Speaks.IMPLICIT_ADDS:
        return dict.fromkeys(requested, coordinator.add_partitions(*who, requested, BUMPS_EPOCH, now))
    return coordinator.verify_partitions(*who, requested)


def _error_for(code: ErrorCode, speaks: Speaks) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and speaks is Speaks.OLD_ERRORS:
        return ErrorCode.INVALID_TXN_STATE
    return code
