"""One transactional id: its producer, and the state of its transaction (Kafka's TransactionMetadata)."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from wirebroker.core.transactions.states import PREVIOUS, TransactionState

NO_ID = NO_EPOCH = -1
LAST_EPOCH = 32767
BUMPS_EPOCH = 2
"""The first transaction version in which every end of a transaction increases the producer's epoch (KIP-890)."""

TopicPartition = tuple[str, int]


def is_exhausted(producer_epoch: int) -> bool:
    """Tells whether a producer id has used all its epochs. The last epoch is reserved for fencing."""
    return producer_epoch >= LAST_EPOCH - 1


class Transaction(Struct, eq=False):
    """The state of a transactional id and of its transaction. Times are in ms since the epoch. An unknown time, id or epoch is
    −1."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated: int
    state: TransactionState = TransactionState.EMPTY
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    """The producer's previous epoch. A client may still send this epoch if it has not received the response with the new
    epoch."""
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    """The next producer id. The producer gets it when all markers are written, because its present id has no epochs left."""
    partitions: set[TopicPartition] = set()
    marked: dict[TopicPartition, tuple[int, int]] = {}
    """For each partition that has the transaction's marker: the leader epoch in which the marker was written, and the log end
    offset after the marker."""
    started: int = -1
    client_version: int = 0
    """The transaction version that the client uses, according to the versions of its requests."""
    is_stuck: bool = False
    """Tells whether the transactional id is blocked until its coordinator moves to another broker. In Kafka an id is blocked if
    the coordinator must write a record that level 0 of transaction.version does not allow."""
    is_abandoned: bool = False
    """Tells whether an EndTxn with a newer epoch has prepared the latest transaction. Before Kafka 2.6, the coordinator finds
    this error only after it has written the prepared state. The transaction then stays prepared, and no change is in progress,
    until the coordinator loads its log again."""

    def copy(self) -> Transaction:
        """Returns a copy, like Kafka's TxnTransitMetadata. The caller changes the copy and writes it down. Then `become` makes
        the copy the current state."""
        return replace(self, partitions=set(self.partitions), marked=dict(self.marked))

    def become(self, other: Transaction) -> None:
        """Change to the state of `other`, which was written down."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    @property
    def is_changing(self) -> bool:
        """Tells whether a change of the state is in progress (Kafka's pendingState). While a transaction ends, Kafka prepares
        the change to the complete state as soon as the end is decided."""
        return (self.state.ending and not self.is_abandoned) or self.is_stuck

    @property
    def blocks_producer(self) -> bool:
        """Tells whether the producer must wait before it can begin a transaction: a change is in progress, or the latest
        transaction stays prepared (`is_abandoned`)."""
        return self.is_changing or self.state.ending

    @property
    def exhausted(self) -> bool:
        """Tells whether the producer needs a new id for its next epoch."""
        return is_exhausted(self.producer_epoch)

    def enter(self, state: TransactionState, now: int, producer_id: int | None = None) -> None:
        """Change to `state`. Raises ValueError if `PREVIOUS` does not allow the transition from the current state."""
        if self.state not in PREVIOUS[state]:
            raise ValueError(f"{self.transactional_id} cannot go from {self.state.value} to {state.value}")
        self.state = state
        self.updated = now
        self.previous_producer_id = self.producer_id
        if producer_id is not None:
            self.producer_id = producer_id

    def initialize(self, timeout_ms: int, now: int, producer_id: int | None = None) -> None:
        """Register that a producer was initialized and has no open transaction."""
        self.enter(TransactionState.EMPTY, now, producer_id)
        self.timeout_ms = timeout_ms
        self.partitions = set()
        self.started = -1

    def add(self, partitions: set[TopicPartition], client_version: int, now: int) -> None:
        """Add partitions to the transaction. The transaction begins if no transaction is open."""
        if self.state is not TransactionState.ONGOING:
            self.started = now
        self.enter(TransactionState.ONGOING, now)
        self.partitions |= partitions
        self.client_version = client_version

    def prepare(self, commit: bool, client_version: int, next_producer_id: int, now: int) -> None:
        """Change to PREPARE_COMMIT or PREPARE_ABORT. From transaction version 2 on, this increases the producer's epoch."""
        began = self.state is TransactionState.ONGOING
        self.enter(TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT, now)
        if client_version >= BUMPS_EPOCH:
            self.last_producer_epoch = self.producer_epoch
            self.producer_epoch = min(self.producer_epoch + 1, LAST_EPOCH)
        if not began:
            self.started = now
        self.next_producer_id = next_producer_id
        self.client_version = client_version
        self.marked = {}

    def complete(self, now: int) -> None:
        """Complete the transaction, because all its markers are written."""
        rotates = self.client_version >= BUMPS_EPOCH and self.next_producer_id != NO_ID
        committed = self.state is TransactionState.PREPARE_COMMIT
        self.enter(
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT, now,
            self.next_producer_id if rotates else None,
        )  # fmt: skip
        if rotates:
            self.producer_epoch = 0
        self.next_producer_id = NO_ID
        self.partitions = set()
        self.marked = {}
