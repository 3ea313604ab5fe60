"""The states of a transactional id, and the allowed transitions (Kafka's TransactionState).

Every change of a state goes through `Transaction.enter`, which reads the table `PREVIOUS`. In Kafka a transactional id is in
the state PrepareEpochFence while the coordinator writes a record that fences a producer. In wirebroker such a write takes no
time, so no transactional id is ever in this state.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """The state of a transactional id. The value is the name that DescribeTransactions and ListTransactions return."""

    EMPTY = "Empty"
    """The transactional id has a producer, but no transaction has begun since the last InitProducerId."""
    ONGOING = "Ongoing"
    """Partitions have been added to a transaction."""
    PREPARE_COMMIT = "PrepareCommit"
    """The transaction will be committed, and its markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """The transaction will be aborted, and its markers are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """All markers of the committed transaction are written."""
    COMPLETE_ABORT = "CompleteAbort"
    """All markers of the aborted transaction are written."""
    DEAD = "Dead"
    """Expired."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """wirebroker never uses this state. The state is listed here because clients may filter by it."""

    @property
    def number(self) -> int:
        """The state's number in __transaction_state."""
        return _NUMBERS[self]

    @property
    def ending(self) -> bool:
        """Tells whether the transaction is prepared and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Tells whether a transactional id in this state is forgotten after transactional.id.expiration.ms."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_NUMBERS = {state: number for number, state in enumerate(TransactionState)}

PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset(
        {TransactionState.ONGOING, TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}
"""For each state, the states that can come directly before it. From transaction version 2 on, a client may abort a transaction
that never began. Therefore EMPTY and the complete states can come before PREPARE_ABORT."""
