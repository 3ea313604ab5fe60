"""A transactional id at its coordinator (TransactionCoordinator, TransactionMetadata).

Empty ──▶ Ongoing ──▶ PrepareCommit, PrepareAbort ──▶ CompleteCommit, CompleteAbort ──▶ Ongoing …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_model.events import NO_ID, Add, CommitOffsets, End, Id, Init, Where
from kafka_model.possible import DONE, Outcome, refused

EXHAUSTED = 32766
LAST_EPOCH = 32767
EMPTY, ONGOING = "Empty", "Ongoing"
PREPARED = {True: "PrepareCommit", False: "PrepareAbort"}
COMPLETE = {True: "CompleteCommit", False: "CompleteAbort"}
CONCURRENT, UNKNOWN_ID, INVALID_STATE, FENCED, OLD_EPOCH, ABORTABLE, INVALID_REQUEST = 51, 49, 48, 90, 47, 120, 42
NEW_ID = "a new id"
LONGEST_TIMEOUT = 900_000


class Transaction(NamedTuple):
    producer_id: Id
    epoch: int
    last_epoch: int = -1
    former_id: Id = NO_ID
    state: str = EMPTY
    partitions: frozenset[Where] = frozenset()
    bumps: bool = False
    """Tells whether the producer's epoch rises when the transaction ends (transaction version 2)."""
    timeout_ms: int = 60_000
    since: int = -1

    @property
    def is_ending(self) -> bool:
        return self.state in PREPARED.values()

    @property
    def commits(self) -> bool:
        return self.state == PREPARED[True]

    def completed(self) -> Transaction:
        """Returns the transaction after its markers were written."""
        renewed = self._replace(state=COMPLETE[self.commits], partitions=frozenset())
        if self.bumps and self.epoch >= LAST_EPOCH:
            return renewed._replace(producer_id=NEW_ID, former_id=self.producer_id, epoch=0)
        return renewed

    def prepared(self, commit: bool, bumps: bool) -> Transaction:
        """Returns the transaction after the coordinator has decided how it ends."""
        epoch, last = (min(self.epoch + 1, LAST_EPOCH), self.epoch) if bumps else (self.epoch, self.last_epoch)
        return self._replace(state=PREPARED[commit], epoch=epoch, last_epoch=last, bumps=bumps)

    def fenced(self) -> tuple[Transaction, Transaction]:
        """Returns the transaction after InitProducerId or the timeout has begun to abort the transaction. Only transaction
        version 2 remembers the former epoch."""
        epoch = min(self.epoch + 1, LAST_EPOCH)
        begun = self._replace(state=PREPARED[False], epoch=epoch, last_epoch=self.epoch, bumps=False)
        return begun, begun._replace(last_epoch=-1)


State = Transaction | None


def fenced_for(version: int, since: int) -> int:
    """Returns the error for a fenced producer: old clients do not know PRODUCER_FENCED."""
    return FENCED if version >= since else OLD_EPOCH


def init(state: State, asked: Init) -> Iterator[tuple[Outcome, State]]:
    if asked.transactional_id == "" or (asked.current is not None and -1 in asked.current):
        yield refused(INVALID_REQUEST), state
        return
    if not 0 < asked.timeout_ms <= LONGEST_TIMEOUT:
        yield refused(50), state
        return
    if state is None:
        yield Outcome(DONE, (None, 0)), Transaction(asked.producer_id, 0, timeout_ms=asked.timeout_ms)
        return
    current = asked.current
    if state.is_ending:
        yield refused(CONCURRENT), state
    elif current is not None and not _may_be(state, *current):
        yield refused(fenced_for(asked.version, 4)), state
    elif state.state == ONGOING:
        yield from ((refused(CONCURRENT), fenced) for fenced in state.fenced())
    else:
        yield _renewed(state, asked)


def _may_be(state: Transaction, producer_id: Id, epoch: int) -> bool:
    return producer_id == state.producer_id or (producer_id == state.former_id and epoch >= EXHAUSTED)


def _renewed(state: Transaction, asked: Init) -> tuple[Outcome, State]:
    epoch = state.epoch
    named = None if asked.current is None else asked.current[1]
    begun = state._replace(state=EMPTY, partitions=frozenset(), timeout_ms=asked.timeout_ms, former_id=state.producer_id)
    if epoch >= EXHAUSTED and named in (None, epoch):
        last = -1 if named is None else epoch
        return Outcome(DONE, (None, 0)), begun._replace(producer_id=asked.producer_id, epoch=0, last_epoch=last)
    if named in (None, epoch):
        last = -1 if named is None else epoch
        return Outcome(DONE, (state.producer_id, epoch + 1)), begun._replace(epoch=epoch + 1, last_epoch=last)
    if named == state.last_epoch:
        return Outcome(DONE, (state.producer_id, epoch)), begun
    return refused(fenced_for(asked.version, 4)), state


def _producer_error(state: State, producer_id: Id, epoch: int) -> int:
    if state is None or state.producer_id != producer_id:
        return UNKNOWN_ID
    if state.epoch != epoch:
        return FENCED
    return CONCURRENT if state.is_ending else 0


def add(state: State, asked: Add | CommitOffsets, partitions: frozenset[Where], now: int) -> Iterator[tuple[Outcome, State]]:
    """Applies AddPartitionsToTxn or AddOffsetsToTxn. In transaction version 2, when a client writes to a partition, the
    partition itself sends AddPartitionsToTxn."""
    code = _producer_error(state, asked.producer_id, asked.epoch)
    if state is not None and state.is_ending:
        yield refused(CONCURRENT), state
    elif code or state is None:
        yield refused(code), state
    else:
        since = state.since if state.state == ONGOING else now
        yield Outcome(DONE), state._replace(state=ONGOING, partitions=state.partitions | partitions, since=since)


def verify(state: State, producer_id: Id, epoch: int, where: Where) -> tuple[int, ...]:
    """A partition asks the coordinator whether it belongs to the transaction. Returns the codes with which the coordinator may
    respond."""
    code = _producer_error(state, producer_id, epoch)
    if code or state is None:
        return (code,)
    return (0,) if where in state.partitions else (ABORTABLE,)


def end(state: State, asked: End) -> Iterator[tuple[Outcome, State]]:
    bumps = asked.version >= 5
    if asked.transactional_id == "":
        yield refused(INVALID_REQUEST), state
        return
    if state is None:
        yield refused(UNKNOWN_ID), state
        return
    if bumps and state.is_ending:
        yield refused(CONCURRENT), state
        return
    overflowed = bumps and asked.producer_id == state.former_id and asked.epoch == EXHAUSTED and state.epoch == 0
    again = overflowed or (bumps and asked.epoch + 1 == state.epoch)
    if asked.producer_id != state.producer_id and not overflowed:
        yield refused(UNKNOWN_ID), state
    elif not _fits(state, asked.epoch, bumps, again):
        yield refused(fenced_for(asked.version, 2)), state
    else:
        yield _ended(state, asked, bumps, again)


def _fits(state: Transaction, epoch: int, bumps: bool, again: bool) -> bool:
    if not bumps or state.state in (ONGOING, EMPTY):
        return epoch == state.epoch
    return again or epoch == state.epoch


def _ended(state: Transaction, asked: End, bumps: bool, again: bool) -> tuple[Outcome, State]:
    told = (state.producer_id, state.epoch) if bumps else None
    if state.state == ONGOING:
        return _prepared(state, asked, bumps)
    if state.is_ending:
        return refused(CONCURRENT), state
    if not bumps or again:
        same = state.state == COMPLETE[asked.commit]
        return (Outcome(DONE, told) if same else refused(INVALID_STATE)), state
    return (refused(INVALID_STATE), state) if asked.commit else _prepared(state, asked, bumps)


def _prepared(state: Transaction, asked: End, bumps: bool) -> tuple[Outcome, State]:
    after = state.prepared(asked.commit, bumps)
    if bumps and state.epoch >= EXHAUSTED:
        return Outcome(DONE), after  # the response has a new id, or the epoch which no batch may have
    return Outcome(DONE, (after.producer_id, after.epoch) if bumps else None), after
