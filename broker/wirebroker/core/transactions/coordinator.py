"""The transaction coordinator gives producers their ids and epochs, and decides how transactions end.

The rules come from Kafka's TransactionCoordinator. All brokers of the process share one coordinator object. Even so, a
broker that does not coordinate a transactional id responds with NOT_COORDINATOR. If possible, the coordinator writes the
markers before it responds to EndTxn, so that the client can begin the next transaction without waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from kafkawire.errors import EncodeError, ErrorCode
from wirebroker.common.changes import TransactionRow
from wirebroker.common.slices import pauses
from wirebroker.core import coordinator_errors
from wirebroker.core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC, Cluster
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.features import TRANSACTION
from wirebroker.core.partition import EndMarker, Partition
from wirebroker.core.purgatory import NEVER, Idle
from wirebroker.core.releases.changes import since
from wirebroker.core.transactions.log import read_transactions, transaction_batch
from wirebroker.core.transactions.states import TransactionState
from wirebroker.core.transactions.transaction import (
    BUMPS_EPOCH,
    LAST_EPOCH,
    NO_EPOCH,
    NO_ID,
    TopicPartition,
    Transaction,
    is_exhausted,
)

KNOWS_ABORTABLE = since("3.8", "an AddPartitionsToTxn that only verifies gets error 120 instead of 48", "KIP-890")
FENCES_NEWER_EPOCHS = since("2.6", "EndTxn with a newer epoch is refused and changes nothing", "KIP-588")
FENCES_TIMED_OUT = since("2.6", "InitProducerId with the epoch of a timed-out transaction is refused")
FORGETS_START = since("4.1", "DescribeTransactions shows no start time after InitProducerId")
AWAITS_END_FIRST = since(
    "4.0", "while a transaction ends, AddPartitionsToTxn gets error 51 even with another producer id or epoch", "KIP-890"
)

CompleteOffsets = Callable[[int, int, bool], None]
"""A callback that is called after a marker was written to __consumer_offsets. Its arguments are the index of the partition, the
producer id, and whether the transaction was committed."""
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
AWAITED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT})
"""After one of these errors, the coordinator writes the marker again when the partition's leader or replicas change."""
MARKERS = 128
"""The number of markers that are written in one slice."""
ENDED = 32
"""The number of transactions that time out or expire in one slice."""
RETRY_MS = 20
"""The time in ms after which the coordinator tries again to write a marker."""
NO_ID_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The response to InitProducerId while the broker has no producer ids left, because the controller could not allocate a new
block (RPCProducerIdManager)."""


class ProducerResult(NamedTuple):
    """The response to a producer: the producer's id and epoch, or an error."""

    code: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


class InitRequest(NamedTuple):
    """An InitProducerId request with a transactional id. `current` is the producer id and epoch that the client already has, or
    None if it has none."""

    transactional_id: str
    timeout_ms: int
    current: tuple[int, int] | None
    node_id: int


class EndRequest(NamedTuple):
    """An EndTxn request, or the coordinator's own decision to abort. If the coordinator itself aborts, `fences` is set, and
    `producer_epoch` is already the increased epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    fences: bool = False


class TransactionCoordinator:
    """The coordinator of all transactional ids of the cluster."""

    def __init__(self, cluster: Cluster, complete_offsets: CompleteOffsets, now: int) -> None:
        self._cluster = cluster
        self._complete_offsets = complete_offsets
        self.transactions: dict[str, Transaction] = {}
        self._awaiting: set[tuple[Transaction, Partition]] = set()
        """The transactions that wait for the change of a partition, each with this partition. The change can be a new leader,
        or the replication of the marker."""
        self._retrying: set[Transaction] = set()
        """The transactions for which a timer is set to write the missing markers again."""
        self._runs: dict[Transaction, object] = {}
        """For each transaction, the latest run of `_finishing`. An earlier run stops when a later run has begun."""
        self._set_timers(now)

    def restart(self, now: int) -> None:
        """Handle a restart of all brokers. The coordinator then continues with the state of each transactional id."""
        self._set_timers(now)
        self._awaiting.clear()
        self._runs.clear()
        self._retrying.clear()
        self._forget_unwritten(self.transactions.values())
        for transaction in self.transactions.values():
            self._load(transaction, now)

    def _forget_unwritten(self, transactions: Iterable[Transaction]) -> None:
        """Forget the transactional ids that could not be written. As in Kafka, the coordinator knows such an id only until the
        coordinator loads its log again."""
        for each in [each for each in transactions if each.producer_epoch == NO_EPOCH]:
            del self.transactions[each.transactional_id]

    def load(self, index: int, batches: Iterable[memoryview], now: int) -> None:
        """Load a partition of __transaction_state, and write the missing markers of its prepared transactions.

        If the clock was moved forward before a restart, the records have later times than `now`. These times are set to `now`,
        so that an open transaction times out.
        """
        known = set(self.transactions.values())
        read_transactions(batches, self.transactions)
        self._change_times(lambda time: min(time, now))
        for transaction in [each for each in self.transactions.values() if each not in known]:
            self._load(transaction, now)

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms` (negative if it was moved back). Move all stored times by `ms`, so that open transactions
        keep their remaining time."""
        self._change_times(lambda time: time + ms)

    def _change_times(self, changed: Callable[[int], int]) -> None:
        for transaction in self.transactions.values():
            transaction.updated = changed(transaction.updated)
            if transaction.started >= 0:
                transaction.started = changed(transaction.started)

    def log_deleted(self) -> None:
        """Forget all transactional ids, because __transaction_state is deleted (TransactionCoordinator.onResignation)."""
        self.transactions.clear()
        self._awaiting.clear()
        self._runs.clear()
        self._retrying.clear()

    def unload(self, index: int) -> None:
        """Forget the transactional ids of a partition of __transaction_state, because its log must be read again."""
        for transaction in self._of_log(index):
            del self.transactions[transaction.transactional_id]
            self._runs.pop(transaction, None)

    def moved(self, index: int, now: int) -> None:
        """Handle a new leader, or the loss of the leader, of a partition of __transaction_state. The new leader completes the
        prepared transactions."""
        moved = self._of_log(index)
        self._forget_unwritten(moved)
        for transaction in moved:
            self._load(transaction, now)

    def _of_log(self, index: int) -> list[Transaction]:
        of_log = self._cluster.coordinator_partition
        return [each for name, each in self.transactions.items() if of_log("transaction", name) == index]

    def _load(self, transaction: Transaction, now: int) -> None:
        """Continue with the state that is in the records. The records do not contain the producer's previous epoch. So, as in
        Kafka, a client that still sends this epoch is fenced."""
        transaction.last_producer_epoch = NO_EPOCH
        transaction.is_stuck = transaction.is_abandoned = False
        self._finish(transaction, now)

    @property
    def _level(self) -> int:
        """The level of the feature transaction.version. When the coordinator itself aborts a transaction, this is the
        transaction version."""
        return self._cluster.configs.features[TRANSACTION]

    def _log_error(self, transactional_id: str) -> ErrorCode:
        return self._cluster.coordinator_log_error("transaction", transactional_id)

    def _set_timers(self, now: int) -> None:
        configs, timers = self._cluster.configs, self._cluster.timers
        expires = "transaction.remove.expired.transaction.cleanup.interval.ms"
        timers.every(lambda: configs.integer(expires), now, self._expire)
        aborts = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        timers.every(lambda: configs.integer(aborts), now, self._abort_timed_out)

    def coordinator_error(self, transactional_id: str, node_id: int) -> ErrorCode:
        """Returns NONE if this broker coordinates the transactional id, or if the id is empty, else the error."""
        return self._cluster.coordinator_error("transaction", transactional_id, node_id) if transactional_id else ErrorCode.NONE

    # Producers

    def init_producer_id(self, requested: InitRequest, now: int) -> ProducerResult:
        """Start a producer. The producer gets the next epoch, and a producer with the previous epoch is fenced."""
        if not requested.transactional_id:
            return ProducerResult(ErrorCode.INVALID_REQUEST)
        if not 0 < requested.timeout_ms <= self._cluster.configs.integer("transaction.max.timeout.ms"):
            return ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        if error := self.coordinator_error(requested.transactional_id, requested.node_id) or self._log_error(
            requested.transactional_id
        ):
            return ProducerResult(error)
        known = self.transactions.get(requested.transactional_id)
        if known is None:
            producer_id = self._cluster.new_producer_id(requested.node_id, now)
            if producer_id is None:
                return ProducerResult(NO_ID_YET)
            known = Transaction(requested.transactional_id, producer_id, requested.timeout_ms, now)
            self.transactions[requested.transactional_id] = known
        producer = self._reinit(known, requested, now)
        if producer.code is ErrorCode.UNKNOWN_SERVER_ERROR:  # Kafka keeps the id, and ListTransactions then fails
            del self.transactions[requested.transactional_id]
        return producer

    def _reinit(self, known: Transaction, requested: InitRequest, now: int) -> ProducerResult:
        if known.is_changing:
            return ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        if requested.current is not None and not _may_be(known, *requested.current):
            return ProducerResult(ErrorCode.PRODUCER_FENCED)
        if known.state.ending:
            return ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING:
            return ProducerResult(self._fence(known, now) or ErrorCode.CONCURRENT_TRANSACTIONS)
        after = known.copy()
        if known.exhausted and (requested.current is None or requested.current[1] == known.producer_epoch):
            last = NO_EPOCH if requested.current is None else known.producer_epoch
            following = self._cluster.new_producer_id(requested.node_id, now)
            if following is None:
                return ProducerResult(NO_ID_YET)
            after.initialize(requested.timeout_ms, now, following)
            after.producer_epoch, after.last_producer_epoch = 0, last
        elif error := self._bump(after, requested, now):
            return ProducerResult(error)
        if not FORGETS_START.of(self._cluster.configs.release):
            after.started = known.started
        if error := self._change(known, after, now):
            return ProducerResult(error)
        return ProducerResult(ErrorCode.NONE, known.producer_id, known.producer_epoch)

    @staticmethod
    def _bump(known: Transaction, requested: InitRequest, now: int) -> ErrorCode:
        epoch = known.producer_epoch
        if requested.current is None:
            epochs = (epoch + 1, NO_EPOCH)
        elif epoch == NO_EPOCH or requested.current[1] == epoch:
            epochs = (epoch + 1, epoch)
        elif requested.current[1] == known.last_producer_epoch:  # a repeated request, because the response was lost
            epochs = (epoch, known.last_producer_epoch)
        else:
            return ErrorCode.PRODUCER_FENCED
        known.initialize(requested.timeout_ms, now)
        known.producer_epoch, known.last_producer_epoch = epochs
        return ErrorCode.NONE

    def _fence(self, transaction: Transaction, now: int) -> ErrorCode:
        """Abort an open transaction without a request of its producer. Returns the error if the abort could not begin."""
        return self.end(
            EndRequest(
                transaction.transactional_id, transaction.producer_id, transaction.producer_epoch + 1, False,
                self._level, fences=True,
            ),
            now,
        ).code  # fmt: skip

    # Partitions

    def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition],
        client_version: int, now: int,
    ) -> ErrorCode:  # fmt: skip
        """Add partitions to the producer's transaction. The transaction begins when the first partition is added."""
        known = self.transactions.get(transactional_id)
        if known is not None and known.blocks_producer and AWAITS_END_FIRST.of(self._cluster.configs.release):
            return ErrorCode.CONCURRENT_TRANSACTIONS  # the producer may already use the id that it gets after the end
        transaction, error = self._of_producer(transactional_id, producer_id, producer_epoch)
        if transaction is None or error:
            return error
        if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
            return ErrorCode.NONE
        if error := self._log_error(transactional_id):
            return error
        after = transaction.copy()
        after.add(set(partitions), client_version, now)
        return self._change(transaction, after, now)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Returns NONE for each partition that is part of the producer's transaction. For all other partitions, returns
        TRANSACTION_ABORTABLE or, before Kafka 3.8, INVALID_TXN_STATE.
        """
        transaction, error = self._of_producer(transactional_id, producer_id, producer_epoch)
        if transaction is None or error:
            return dict.fromkeys(partitions, error)
        knows_abortable = KNOWS_ABORTABLE.of(self._cluster.configs.release)
        absent = ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE
        return {each: ErrorCode.NONE if each in transaction.partitions else absent for each in partitions}

    def _of_producer(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> tuple[Transaction | None, ErrorCode]:
        if not transactional_id:
            return None, ErrorCode.INVALID_REQUEST
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.producer_epoch != producer_epoch:
            return None, ErrorCode.PRODUCER_FENCED
        return transaction, ErrorCode.CONCURRENT_TRANSACTIONS if transaction.blocks_producer else ErrorCode.NONE

    # Ends

    def end(self, requested: EndRequest, now: int) -> ProducerResult:
        """Commit or abort a transaction. In transaction version 2, the result has the producer's next id and epoch."""
        if not requested.transactional_id:
            return ProducerResult(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(requested.transactional_id)
        if transaction is None:
            return ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        release = self._cluster.configs.release
        fences = FENCES_NEWER_EPOCHS.of(release)
        judged = _judge_end(transaction, requested, fences)
        if judged is not None:
            if judged is ErrorCode.NONE and requested.transaction_version >= BUMPS_EPOCH:
                return ProducerResult(judged, transaction.producer_id, transaction.producer_epoch)
            return ProducerResult(judged)
        if error := self._log_error(requested.transactional_id):
            return ProducerResult(error)
        bumps = requested.transaction_version >= BUMPS_EPOCH
        following: int | None = NO_ID
        if bumps and transaction.exhausted:
            node_id = self._cluster.coordinator("transaction", requested.transactional_id) or self._cluster.controller_id
            following = self._cluster.new_producer_id(node_id, now)
        if following is None:
            return ProducerResult(NO_ID_YET)
        version = requested.transaction_version if bumps else 0
        after = transaction.copy()
        after.prepare(requested.commit, version, following, now)
        if requested.fences and not bumps:
            after.producer_epoch = min(requested.producer_epoch, LAST_EPOCH)
            after.last_producer_epoch = NO_EPOCH if FENCES_TIMED_OUT.of(release) else transaction.producer_epoch
        after.is_abandoned = not fences and requested.producer_epoch != after.producer_epoch
        if error := self._change(transaction, after, now):
            return ProducerResult(error)
        if transaction.is_abandoned:
            return ProducerResult(ErrorCode.INVALID_PRODUCER_EPOCH)
        self._finish(transaction, now)
        if not bumps:
            return ProducerResult(ErrorCode.NONE)
        if transaction.state.ending and following != NO_ID:
            return ProducerResult(ErrorCode.NONE, following, 0)
        return ProducerResult(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)

    def _finish(self, transaction: Transaction, now: int) -> None:
        """Write the markers of a prepared transaction, and complete the transaction when they are replicated. The markers are
        written in slices.

        As in Kafka, the transaction stays prepared if a marker is fenced. If a marker could not be stored, the coordinator
        tries again after `RETRY_MS`.
        """
        self._cluster.timers.work(self._finishing(transaction, now))

    def _finishing(self, transaction: Transaction, now: int) -> Iterator[None]:
        self._runs.pop(transaction, None)
        if self.transactions.get(transaction.transactional_id) is not transaction:  # the log was lost, or read again
            return
        coordinator = self._cluster.coordinator("transaction", transaction.transactional_id)
        if not transaction.state.ending or (coordinator is None and transaction.partitions):
            return
        log = self._cluster.coordinator_log("transaction", transaction.transactional_id)
        marker = EndMarker(
            transaction.producer_id, transaction.producer_epoch, transaction.state is TransactionState.PREPARE_COMMIT,
            log.leader_epoch if log else 0, transaction.client_version,
        )  # fmt: skip
        run = self._runs[transaction] = object()
        pause = pauses(MARKERS)
        missing = {}
        for where in sorted(transaction.partitions):
            yield from pause()
            if self._runs.get(transaction) is not run:  # a later run has begun, for example because a marker was written
                return
            if code := self._mark(transaction, where, marker, now):
                missing[where] = code
        if self._runs.get(transaction) is not run:
            return
        del self._runs[transaction]
        transaction.partitions = set(missing)
        if not missing:
            after = transaction.copy()
            after.complete(now)
            if self._change(transaction, after, now):
                self._retry(transaction, now + coordinator_errors.RETRY_MS)
        elif not any(code in FENCED for code in missing.values()):
            if not AWAITED.issuperset(missing.values()):
                broken = ErrorCode.KAFKA_STORAGE_ERROR in missing.values()
                self._retry(transaction, now + (coordinator_errors.RETRY_MS if broken else RETRY_MS))
            for where in [where for where, code in missing.items() if code in AWAITED]:
                self._await_change(transaction, where)

    def _retry(self, transaction: Transaction, when: int) -> None:
        """Write the missing markers of a transaction at `when`, unless a timer is already set for the transaction."""
        if transaction not in self._retrying:
            self._retrying.add(transaction)

            def again(now: int) -> None:
                self._retrying.discard(transaction)
                self._finish(transaction, now)

            self._cluster.timers.at(when, again)

    def _mark(self, transaction: Transaction, where: TopicPartition, marker: EndMarker, now: int) -> ErrorCode:
        """Write the transaction's marker to one partition, unless the partition has the marker already. Returns
        REQUEST_TIMED_OUT while the marker is not replicated to all in-sync replicas."""
        partition = self._cluster.partition(*where)
        if partition is None:
            return ErrorCode.NONE
        epoch, end = transaction.marked.get(where, (-1, -1))
        if epoch != partition.leader_epoch:  # the marker is not written yet, or was written under an earlier leader
            if code := self.write_marker(*where, marker, now):
                return code
            end = partition.log_end_offset
            transaction.marked[where] = (partition.leader_epoch, end)
        return ErrorCode.NONE if partition.high_watermark >= end else ErrorCode.REQUEST_TIMED_OUT

    def _await_change(self, transaction: Transaction, where: TopicPartition) -> None:
        """Call `_finish` again after the partition has got a new leader, other in-sync replicas, or a higher high watermark."""
        partition = self._cluster.partition(*where)
        if partition is None or (transaction, partition) in self._awaiting:
            return

        def resume(changed: Partition, now: int) -> None:
            if resume in changed.waiting:
                del changed.waiting[resume]
                self._awaiting.discard((transaction, changed))
                self._finish(transaction, now)

        self._awaiting.add((transaction, partition))
        partition.waiting[resume] = None

    def write_marker(self, topic: str, index: int, marker: EndMarker, now: int) -> ErrorCode:
        """Write the marker of a producer's transaction to one partition. A deleted partition needs no marker, so the result is
        NONE."""
        partition = self._cluster.partition(topic, index)
        if partition is None:
            return ErrorCode.NONE
        if partition.leader == NO_LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.replication.too_few:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        code = partition.append_marker(marker, now)
        if not code and topic == GROUP_TOPIC:
            self._complete_offsets(index, marker.producer_id, marker.commit)
        return code

    # Time

    def _abort_timed_out(self, now: int) -> Generator[None, Any, Idle]:
        until, changed, pause = NEVER, False, pauses(ENDED)
        for transaction in list(self.transactions.values()):
            if transaction.state is not TransactionState.ONGOING or not self._holds(transaction):
                continue
            if (ends := transaction.started + transaction.timeout_ms + 1) > now:
                until = min(until, ends)
            elif not self._fence(transaction, now):
                changed = True
                yield from pause()
            elif not (transaction.is_stuck or self._log_error(transaction.transactional_id)):
                until = now  # the disk refused the record
        return None if changed else until

    def _holds(self, transaction: Transaction) -> bool:
        return self.transactions.get(transaction.transactional_id) is transaction

    def _expire(self, now: int) -> Generator[None, Any, Idle]:
        keep = self._cluster.configs.integer("transactional.id.expiration.ms")
        until, changed, pause = NEVER, False, pauses(ENDED)
        for transaction in list(self.transactions.values()):
            if not transaction.state.may_expire or not self._holds(transaction):
                continue
            if transaction.updated + keep > now:
                until = min(until, transaction.updated + keep)
            elif not self._log_error(transaction.transactional_id):
                changed = not self.forget(transaction, now) or changed
                until = now
                yield from pause()
        return None if changed else until

    def forget(self, transaction: Transaction, now: int) -> ErrorCode:
        """Forget an expired transactional id. The next producer with this transactional id gets a new producer id. If the
        tombstone cannot be written, the transactional id stays."""
        after = transaction.copy()
        after.enter(TransactionState.DEAD, now)
        error = self._change(transaction, after, now)
        if not error:
            del self.transactions[transaction.transactional_id]
        return error

    def _change(self, transaction: Transaction, after: Transaction, now: int) -> ErrorCode:
        """Write down the transaction's next state, `after`, and then change the transaction to this state. Returns the error
        for the client if the write fails."""
        index = self._cluster.coordinator_partition("transaction", transaction.transactional_id)
        log = self._cluster.partition(TRANSACTION_TOPIC, index) if index is not None else None
        writes_version = after.client_version and after.state is not TransactionState.DEAD
        if not self._level and writes_version and not transaction.state.ending:
            transaction.is_stuck = True
            return ErrorCode.UNSUPPORTED_VERSION
        try:
            batch = transaction_batch(after, self._level, now)
        except EncodeError:  # the id is longer than a record can hold
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if log is not None and (error := log.append_own(batch, now)):
            return coordinator_errors.translate_error(error)
        transaction.become(after)
        if self._cluster.watch is not None:
            partitions = tuple(f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions))
            self._cluster.report(
                TransactionRow(
                    transaction.transactional_id, transaction.producer_id, transaction.producer_epoch,
                    transaction.state.value, partitions,
                )
            )  # fmt: skip
        return ErrorCode.NONE


def _may_be(known: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Tells whether this producer id and this epoch can come from the known producer. The client may still use the previous
    producer id if the epochs of that id are exhausted."""
    if known.producer_epoch == NO_EPOCH or producer_id == known.producer_id:
        return True
    return producer_id == known.previous_producer_id and is_exhausted(producer_epoch)


def _judge_end(transaction: Transaction, requested: EndRequest, fences: bool) -> ErrorCode | None:
    """Returns None if this EndTxn will end the transaction. If it will change nothing, returns the error for the response (NONE
    if it repeats an earlier EndTxn).

    From transaction version 2 on, every EndTxn increases the epoch, so a repeated EndTxn has the previous epoch. In these
    versions, a client may also abort a transaction that never began; this EndTxn increases the epoch, too. In earlier versions
    a repeated EndTxn is recognised only by the state of the transaction. `fences` tells whether an epoch that is newer than the
    known epoch is refused.
    """
    bumps = requested.transaction_version >= BUMPS_EPOCH
    state, epoch = transaction.state, transaction.producer_epoch
    if bumps and transaction.is_changing:  # the producer may already use the epoch or the id that it gets after the end
        return ErrorCode.CONCURRENT_TRANSACTIONS
    overflowed = (
        bumps and not requested.fences and requested.producer_id == transaction.previous_producer_id
        and requested.producer_epoch == 32766 and epoch == 0
    )  # fmt: skip
    again = (bumps and not requested.fences and requested.producer_epoch + 1 == epoch) or overflowed
    if requested.producer_id != transaction.producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    takes_newer = not fences and requested.producer_epoch > epoch
    if not takes_newer and not _epoch_fits(transaction, requested, again):
        return ErrorCode.PRODUCER_FENCED
    if transaction.is_changing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if state.ending:
        commits = state is TransactionState.PREPARE_COMMIT
        return ErrorCode.CONCURRENT_TRANSACTIONS if requested.commit == commits else ErrorCode.INVALID_TXN_STATE
    if state is TransactionState.ONGOING:
        return None
    ended_so = (TransactionState.COMPLETE_COMMIT if requested.commit else TransactionState.COMPLETE_ABORT) is state
    if not bumps or again:
        return ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_TXN_STATE if requested.commit else None


def _epoch_fits(transaction: Transaction, requested: EndRequest, again: bool) -> bool:
    epoch = transaction.producer_epoch
    if requested.fences:
        return requested.producer_epoch >= epoch
    if requested.transaction_version < BUMPS_EPOCH or transaction.state in (TransactionState.ONGOING, TransactionState.EMPTY):
        return requested.producer_epoch == epoch
    return again or requested.producer_epoch == epoch
