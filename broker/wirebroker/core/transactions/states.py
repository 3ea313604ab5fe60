"""The states of a transactional id, and which may follow which (Kafka's TransactionState).

Everything that changes a state goes through `Transaction.enter`, which reads this table. Kafka has one state more,
PrepareEpochFence, which lasts for as long as a write to the log is awaited; here nothing is awaited.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """A transactional id's state; the value is what DescribeTransactions and ListTransactions show."""

    EMPTY = "Empty"
    """It has a producer and never had a transaction, or begins anew."""
    ONGOING = "Ongoing"
    """Partitions have been added to a transaction."""
    PREPARE_COMMIT = "PrepareCommit"
    """It is decided that the transaction commits; the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """It is decided that the transaction aborts; the markers are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """All markers are written."""
    COMPLETE_ABORT = "CompleteAbort"
    """All markers are written."""
    DEAD = "Dead"
    """Expired."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """Never entered here; named because clients may filter by it."""

    @property
    def number(self) -> int:
        """Its number in __transaction_state."""
        return _NUMBERS[self]

    @property
    def ending(self) -> bool:
        """Whether markers are being written."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether a transactional id in this state is forgotten after transactional.id.expiration.ms."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


_NUMBERS = {state: number for number, state in enumerate(State)}

PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.ONGOING: frozenset({State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: frozenset({State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.PREPARE_EPOCH_FENCE: frozenset(),
}
"""From which states each may be entered. Aborting what never began is allowed from transaction version 2 on."""
