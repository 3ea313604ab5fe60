"""The idempotence validator decides whether a batch is the next batch of its producer, a retry of a stored batch, or out of
order.

    judge(state, batch, rules, log_end_offset)  →  Accept | Duplicate | Reject       decides, changes nothing
    advance(state, batch, base_offset, …)       →  the state after the batch was stored

The same verdict feeds the response, the trace, the explanation and the audit. The rules and their order come from Kafka's
ProducerStateManager, ProducerStateEntry and ProducerAppendInfo. The validator first recognises a retry: a client's batch with
the same first and last sequence as a batch in the window. Then the validator checks the epoch, and then the sequence.

A producer's state on a partition is immutable packed `bytes`: a head, then the producer's latest batches, newest first. Packed
bytes take a fifth of the memory of objects. To commit a new state, the caller replaces the producer's value in a dict.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafkawire.batches import SEQUENCES, TRANSACTIONAL, BatchHeader
from kafkawire.errors import ErrorCode, error_name
from wirebroker.core.profile import Rules

Key = int | str
"""The key of a producer: its id, or its client id in the profile `pulsar`."""

_HEAD = struct.Struct(">hiqBiq")
"""epoch, coordinator epoch, first offset of the open transaction, flags; then the fields that every batch changes: last
sequence, last timestamp"""
_KEPT = struct.calcsize(">hiqB")
_FLAGS_AT = _KEPT - 1
_QUICK = struct.Struct(">h12xBi")
"""epoch, flags and last sequence alone"""
_BATCH = struct.Struct(">iqiq")
"""last sequence, last offset, offset delta, timestamp"""
_NEXT = struct.Struct(">iqiqiq")
"""the last two fields of the head, which the next batch in order changes, and then the entry of this batch"""
_START = _HEAD.size
_POISONED = 1
_OPEN = 2
"""A transaction of the producer is open on this partition."""
FIRST_ERRORS = {"zero_or_45": 45, "zero_or_59": 59}
"""For each value of the rule `first_sequence`: the error if a producer without state begins at a sequence other than 0."""
LAST_EPOCH = 32767
_OLDER = SEQUENCES // 2
"""If sequence `b` comes fewer than this many steps after sequence `a`, `a` is older than `b`; otherwise, `a` is newer.
Sequences wrap: 0 comes after 2³¹ − 1."""


class Origin(Enum):
    """The source of a batch. The validator checks only clients' batches."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(slots=True)
class Verification:
    """What a partition remembers about a transaction until the transaction's first batch is stored (Kafka's
    VerificationStateEntry).

    `lowest_sequence` is the smallest base sequence of the batches in this epoch that waited for the verification. `bumps_epoch`
    is set if the producer uses transaction version 2. `since` is in ms since the epoch.
    """

    lowest_sequence: int
    producer_epoch: int
    bumps_epoch: bool
    since: int

    def see(self, sequence: int, producer_epoch: int) -> None:
        """Register that a further batch waits for this verification."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class Accept(NamedTuple):
    """The verdict for a batch that will be stored at this offset."""

    base_offset: int
    rule: str


class Duplicate(NamedTuple):
    """The verdict for a batch that is already stored. `position` is the position of the stored batch among the `window`
    batches, where 1 is the newest. `position` is 0 if the batch is older than the window."""

    base_offset: int
    timestamp: int
    position: int
    window: int
    rule: str


class Reject(NamedTuple):
    """The verdict for a refused batch. `got` is the epoch or the sequence that was refused, and `expected` is the value
    that would have been accepted."""

    code: int
    rule: str
    got: int
    expected: int
    poisons: bool = False
    """Tells whether all later batches of the producer are refused as well. In this case the caller commits `poison(state)`."""


Verdict = Accept | Duplicate | Reject


class BatchMetadata(NamedTuple):
    """The facts about a stored batch that the broker remembers."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The first record's sequence."""
        return (self.last_sequence - self.offset_delta) % SEQUENCES

    @property
    def first_offset(self) -> int:
        """The first record's offset."""
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """A producer's state on a partition, unpacked; the batches are oldest first."""

    producer_epoch: int
    last_sequence: int
    coordinator_epoch: int
    last_timestamp: int
    current_txn_first_offset: int
    poisoned: bool
    batches: tuple[BatchMetadata, ...]


def unpack(state: bytes) -> ProducerEntry:
    """Returns the packed state as an object."""
    epoch, coordinator_epoch, txn_start, flags, last, timestamp = _HEAD.unpack_from(state)
    batches = tuple(BatchMetadata._make(fields) for fields in _BATCH.iter_unpack(state[_START:]))
    return ProducerEntry(epoch, last, coordinator_epoch, timestamp, txn_start, bool(flags & _POISONED), batches[::-1])


def pack(entry: ProducerEntry) -> bytes:
    """Returns the object as packed state."""
    head = _HEAD.pack(
        entry.producer_epoch, entry.coordinator_epoch, entry.current_txn_first_offset,
        _POISONED * entry.poisoned | _OPEN * (entry.current_txn_first_offset >= 0), entry.last_sequence, entry.last_timestamp,
    )  # fmt: skip
    return head + b"".join(_BATCH.pack(*batch) for batch in reversed(entry.batches))


def last_timestamp(state: bytes) -> int:
    """Returns the max timestamp of the last batch, in ms since the epoch. A producer's expiration counts from this time."""
    timestamp: int = _HEAD.unpack_from(state)[5]
    return timestamp


def last_offset(state: bytes) -> int:
    """Returns the last offset that the producer wrote, or −1 if this offset is unknown."""
    return int(_BATCH.unpack_from(state, _START)[1]) if len(state) > _START else -1


def open_since(state: bytes | None) -> int:
    """Returns the first offset of the producer's open transaction, or −1 if no transaction is open."""
    return int(_HEAD.unpack_from(state)[2]) if state is not None else -1


def open_transactions(producers: Mapping[Key, bytes]) -> dict[int, int]:
    """For each of these producers with an open transaction, returns the transaction's first offset by producer id."""
    return {int(key): first for key, state in producers.items() if (first := open_since(state)) >= 0}


def epoch_of(state: bytes) -> int:
    """Returns the producer's epoch, or −1 while the producer has no epoch."""
    epoch: int = _QUICK.unpack_from(state)[0]
    return epoch


def without_batches(state: bytes) -> bytes:
    """Returns the producer's state without its batches. With such a state, no retry is recognised, but the expected next
    sequence is the same."""
    return state[:_START]


def last_batch_only(state: bytes) -> bytes:
    """Returns the producer's state with only its last batch, as in a producer snapshot on disk."""
    return state[: _START + _BATCH.size]


def follower_state(mine: bytes | None, leaders: bytes, since: int, window: int) -> bytes | None:
    """Returns a follower's state of a producer. `mine` was the follower's state of the producer when the follower's log
    ended at offset `since`.

    `leaders` is the leader's state of the producer; the follower now has the same log as the leader. The follower knows the
    batches from `since` on because it appended them, and earlier batches only from `mine`. Returns None if the follower does
    not know the producer.
    """
    batches = [leaders[at : at + _BATCH.size] for at in range(_START, len(leaders), _BATCH.size)]
    kept = [batch for batch in batches if _BATCH.unpack(batch)[1] >= since]
    if mine is None and not kept:
        return None
    if mine is not None and epoch_of(mine) == epoch_of(leaders):
        older = (mine[at : at + _BATCH.size] for at in range(_START, len(mine), _BATCH.size))
        kept += [batch for batch in older if _BATCH.unpack(batch)[1] < since]
    return leaders[:_START] + b"".join(kept[:window])


def poison(state: bytes) -> bytes:
    """Returns the producer's state with a mark: the producer is refused until it has a new id (`gap=45_until_new_id`)."""
    return state[:_FLAGS_AT] + bytes([state[_FLAGS_AT] | _POISONED]) + state[_KEPT:]


def judge(
    state: bytes | None,
    batch: BatchHeader,
    rules: Rules,
    log_end_offset: int,
    origin: Origin = Origin.CLIENT,
    issued: bool = True,
    verification: Verification | None = None,
    verified: bool = False,
) -> Verdict:
    """Decides whether `batch` is accepted, a duplicate, or rejected.

    `issued` tells whether a broker has ever issued the batch's producer id. `verified` tells whether the transaction
    coordinator has just confirmed that the partition belongs to the transaction of `verification`.
    """
    if batch.attributes & TRANSACTIONAL or verification is not None or (state is not None and state[_FLAGS_AT] & _OPEN):
        return _judge_in_transaction(state, batch, rules, log_end_offset, origin, verification, verified)
    if state is None:
        return _judge_first(batch, rules, log_end_offset, origin, issued)
    epoch, flags, last = _QUICK.unpack_from(state)
    # The next batch in order cannot be a retry: a remembered batch with the same sequences would be 2³¹ records old.
    if batch.base_sequence == (last + 1) % SEQUENCES and batch.producer_epoch == epoch >= 0 and not flags:
        return Accept(log_end_offset, "next")
    if origin is not Origin.CLIENT:
        return _judge_epoch(batch, epoch) or Accept(log_end_offset, "unchecked")
    if rules.key == "client_id":
        return _judge_by_name(state, batch, rules, log_end_offset, last)
    return (
        _find_duplicate(state, batch, epoch, rules)
        or _judge_epoch(batch, epoch)
        or _judge_sequence(state, batch, rules, log_end_offset, epoch, last)
    )


def _judge_in_transaction(
    state: bytes | None, batch: BatchHeader, rules: Rules, log_end_offset: int, origin: Origin,
    verification: Verification | None, verified: bool,
) -> Verdict:  # fmt: skip
    """Decide about a transactional batch, and about any batch of a producer that has an open transaction or is about to begin a
    transaction.

    The checks have the order of UnifiedLog.analyzeAndValidateProducerState and ProducerAppendInfo. The first check recognises a
    retry, the second check compares the epoch, the third check requires that the coordinator knows the batch's transaction, and
    the last check compares the sequence.
    """
    epoch, flags, last = (-1, 0, -1) if state is None else _QUICK.unpack_from(state)
    client = origin is Origin.CLIENT
    if client and state is not None and (retry := _find_duplicate(state, batch, epoch, rules)):
        return retry
    if fenced := _judge_epoch(batch, epoch):
        return fenced
    transactional = batch.is_transactional
    ongoing = flags & _OPEN and batch.producer_epoch == epoch
    if transactional and not ongoing and not verified:
        return Reject(ErrorCode.INVALID_TXN_STATE, "not_in_transaction", batch.producer_epoch, epoch)
    verdict: Verdict = Accept(log_end_offset, "unchecked")
    if client:
        verdict = _judge_verified_sequence(state, batch, verification, rules) or (
            _judge_sequence(state, batch, rules, log_end_offset, epoch, last)
            if state is not None
            else _judge_first_sequence(batch, rules) or Accept(log_end_offset, "first")
        )
    if isinstance(verdict, Accept) and flags & _OPEN and not transactional:
        return Reject(ErrorCode.INVALID_TXN_STATE, "outside_transaction", batch.base_sequence, -1)
    return verdict


def _judge_verified_sequence(
    state: bytes | None, batch: BatchHeader, verification: Verification | None, rules: Rules
) -> Reject | None:
    """Refuse a transaction's first batch if it has overtaken an earlier batch that is still in flight."""
    if verification is None:
        return None
    got, out_of_order = batch.base_sequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    nothing_stored = state is None or len(state) <= _START
    if verification.bumps_epoch and got != 0 and nothing_stored and rules.transaction_start == "zero":
        return Reject(out_of_order, "transaction_not_from_zero", got, 0)
    if got > verification.lowest_sequence:
        return Reject(out_of_order, "after_verified", got, verification.lowest_sequence)
    return None


def _judge_first(batch: BatchHeader, rules: Rules, log_end_offset: int, origin: Origin, issued: bool) -> Verdict:
    """Decide about the batch of a producer that has no state on this partition. In Kafka since 2.5, such a producer may begin
    with any sequence."""
    if (fenced := _judge_epoch(batch, -1)) is not None:
        return fenced
    if origin is Origin.CLIENT:
        if not issued and rules.unissued != "accept" and batch.producer_id >= 0:
            return Reject(ErrorCode.UNKNOWN_PRODUCER_ID, "unissued_producer_id", batch.producer_id, -1)
        if refused := _judge_first_sequence(batch, rules):
            return refused
    return Accept(log_end_offset, "first")


def _judge_first_sequence(batch: BatchHeader, rules: Rules) -> Reject | None:
    if batch.base_sequence != 0 and rules.first_sequence != "any":
        code = FIRST_ERRORS[rules.first_sequence] if batch.producer_epoch >= 0 else int(rules.after_marker)
        return Reject(code, "first_not_zero", batch.base_sequence, 0)
    return None


def _judge_epoch(batch: BatchHeader, epoch: int) -> Reject | None:
    if batch.producer_epoch < epoch:
        return Reject(ErrorCode.INVALID_PRODUCER_EPOCH, "epoch_fenced", batch.producer_epoch, epoch)
    return None


def _find_duplicate(state: bytes, batch: BatchHeader, epoch: int, rules: Rules) -> Duplicate | None:
    """Returns a Duplicate if a stored batch of the same epoch has exactly the same sequences, else None. The offset in the
    response depends on `rules.duplicate`."""
    if batch.producer_epoch != epoch:
        return None
    last, delta = batch.last_sequence, batch.last_offset_delta
    cached = (len(state) - _START) // _BATCH.size
    for position in range(cached):
        last_seq, offset, offset_delta, timestamp = _BATCH.unpack_from(state, _START + position * _BATCH.size)
        if last_seq == last and offset_delta == delta:
            if rules.duplicate == "dropped":
                return Duplicate(-1, -1, position + 1, cached, "retry")
            return Duplicate(offset - offset_delta, timestamp, position + 1, cached, "retry")
    return None


def _judge_sequence(state: bytes, batch: BatchHeader, rules: Rules, log_end_offset: int, epoch: int, last: int) -> Verdict:
    got = batch.base_sequence
    if state[_FLAGS_AT] & _POISONED:
        return Reject(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "refused_until_new_id", got, -1)
    if batch.producer_epoch != epoch:
        if got != 0 and epoch != -1:
            return Reject(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "new_epoch_not_zero", got, 0)
        return (_judge_first_sequence(batch, rules) if got else None) or Accept(log_end_offset, "new_epoch")
    if epoch == -1 and rules.first_sequence == "any":
        return Accept(log_end_offset, "no_epoch")
    return _judge_order(batch, rules, log_end_offset, last)


def _judge_order(batch: BatchHeader, rules: Rules, log_end_offset: int, last: int) -> Verdict:
    """Compare the first sequence of a batch with the last stored sequence. The batch is not a retry."""
    got = batch.base_sequence
    expected = (last + 1) % SEQUENCES
    if got == expected:
        return Accept(log_end_offset, "next")
    if last >= 0 and (last - got) % SEQUENCES < _OLDER:
        return _judge_stale(batch, rules, last, expected)
    if rules.gap == "accept":
        return Accept(log_end_offset, "gap_accepted")
    code = int(rules.after_marker) if last < 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return Reject(code, "gap", got, expected, rules.gap == "45_until_new_id")


def _judge_stale(batch: BatchHeader, rules: Rules, last: int, expected: int) -> Verdict:
    """Decide about a batch that is not a retry of a batch in the window, but whose first sequence is at or before the last
    stored sequence."""
    within = (last - batch.last_sequence) % SEQUENCES < _OLDER
    if within and rules.stale == "acknowledge":
        return Duplicate(-1, -1, 0, rules.window, "at_or_below_highest")
    if within and rules.stale == "46":
        return Reject(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "before_window", batch.base_sequence, expected)
    rule = "before_window" if within else "overlap"
    poisons = rules.gap == "45_until_new_id"
    return Reject(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, rule, batch.base_sequence, expected, poisons)


def _judge_by_name(state: bytes, batch: BatchHeader, rules: Rules, log_end_offset: int, highest: int) -> Verdict:
    """Decide as Pulsar's deduplication does. The application chooses the sequence ids. Sequence ids do not wrap, and they may
    leave gaps."""
    if retry := _find_duplicate(state, batch, batch.producer_epoch, rules):
        return retry
    if batch.base_sequence <= highest and rules.stale == "acknowledge":
        return Duplicate(-1, -1, 0, rules.window, "at_or_below_highest")
    if batch.base_sequence > highest and rules.gap == "accept":
        return Accept(log_end_offset, "above_highest")
    return _judge_order(batch, rules, log_end_offset, highest)


def advance(state: bytes | None, batch: BatchHeader, base_offset: int, timestamp: int, rules: Rules) -> bytes:
    """Returns the producer's state after `batch` was stored at `base_offset`. `timestamp` is the largest timestamp in the
    batch, in ms."""
    epoch, delta, sequence = batch.producer_epoch, batch.last_offset_delta, batch.base_sequence
    last = (sequence + delta) % SEQUENCES if sequence >= 0 else -1
    newest = _NEXT.pack(last, timestamp, last, base_offset + delta, delta, timestamp)
    if state is None:
        opened = bool(batch.attributes & TRANSACTIONAL)
        start = base_offset if opened else -1
        return _HEAD.pack(epoch, -1, start, _OPEN if opened else 0, 0, 0)[:_KEPT] + newest
    known, flags, _ = _QUICK.unpack_from(state)
    begins = batch.attributes & TRANSACTIONAL and not flags & _OPEN
    if known == epoch and not flags & _POISONED and not begins:
        return state[:_KEPT] + newest + state[_START : _START + (rules.window - 1) * _BATCH.size]
    _, coordinator_epoch, txn_start, *_ = _HEAD.unpack_from(state)
    if begins:
        txn_start, flags = base_offset, flags | _OPEN
    older = state[_START : _START + (rules.window - 1) * _BATCH.size] if known == epoch else b""
    return _HEAD.pack(epoch, coordinator_epoch, txn_start, flags & _OPEN, 0, 0)[:_KEPT] + newest + older


def judge_marker(state: bytes | None, producer_epoch: int, coordinator_epoch: int, transaction_version: int) -> ErrorCode:
    """Returns NONE if a transaction's marker may be written, else the error (ProducerAppendInfo.appendEndTxnMarker).

    From transaction version 2 on, a marker carries a new producer epoch. So a marker with the producer's current epoch repeats
    an earlier marker. Such a marker is allowed if no transaction is open.
    """
    epoch, known_coordinator, txn_start = -1, -1, -1
    if state is not None:
        epoch, known_coordinator, txn_start, *_ = _HEAD.unpack_from(state)
    if transaction_version >= 2 and producer_epoch == epoch:
        stale = txn_start >= 0 and producer_epoch != LAST_EPOCH
    else:
        stale = producer_epoch < epoch
    if stale:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.TRANSACTION_COORDINATOR_FENCED if known_coordinator > coordinator_epoch else ErrorCode.NONE


def end_transaction(state: bytes | None, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> bytes:
    """Returns the producer's state after a transaction marker was stored. If the marker has a new epoch, the batches of the old
    epoch are forgotten."""
    epoch, last, batches = -1, -1, b""
    if state is not None:
        epoch, _, _, _, last, _ = _HEAD.unpack_from(state)
        batches = state[_START:]
    if epoch != producer_epoch:
        last, batches = -1, b""
    return _HEAD.pack(producer_epoch, coordinator_epoch, -1, 0, last, timestamp) + batches


def without_transaction(state: bytes) -> bytes:
    """Returns the producer's state without its open transaction. No marker is written to the log, and the producer's sequences
    continue."""
    epoch, coordinator_epoch, _, flags, last, timestamp = _HEAD.unpack_from(state)
    return _HEAD.pack(epoch, coordinator_epoch, -1, flags & ~_OPEN, last, timestamp) + state[_START:]


def advance_in_order(
    state: bytes, epoch: int, sequence: int, delta: int, base_offset: int, timestamp: int, window: int
) -> bytes | None:
    """If `judge` would accept the batch as the next in order, returns the same new state as `advance`. Otherwise returns
    None."""
    known, flags, last = _QUICK.unpack_from(state)
    if sequence != (last + 1) % SEQUENCES or epoch != known or epoch < 0 or flags:
        return None
    last = (sequence + delta) % SEQUENCES
    newest = _NEXT.pack(last, timestamp, last, base_offset + delta, delta, timestamp)
    return state[:_KEPT] + newest + state[_START : _START + (window - 1) * _BATCH.size]


# Explanations


def explain(verdict: Verdict, batch: BatchHeader, state: bytes | None, topic: str, partition: int) -> str:
    """Returns the verdict as a sentence: the received and expected sequences, and the batches in the window."""
    one = batch.base_sequence == batch.last_sequence
    who = f"producer {batch.producer_id} epoch {batch.producer_epoch}"
    came = f"sequence{'' if one else 's'} {_range(batch.base_sequence, batch.last_sequence)}"
    if batch.producer_id < 0:
        who = "a producer without an id"
        one, came = (True, "the batch") if batch.base_sequence < 0 else (one, came)
    words = {"came": came, "are": "is" if one else "are", "who": f"{who} on {topic}-{partition}"}
    if isinstance(verdict, Accept):
        stored = f"stored at offset {verdict.base_offset}" if verdict.base_offset >= 0 else "accepted"
        return f"{stored}: {ACCEPTED[verdict.rule].format(**words)}"
    if isinstance(verdict, Duplicate):
        found = f"batch {verdict.position} of {verdict.window} in the window, counted from the newest; not stored again"
        if not verdict.position:
            found = "at or below the highest stored sequence"
        if verdict.base_offset < 0:
            return f"dropped: {{came}} of {{who}} {{are}} {found}; acknowledged with offset −1".format(**words)
        return f"duplicate of offset {verdict.base_offset}: {{came}} of {{who}} {{are}} {found}".format(**words)
    reason = REJECTED[verdict.rule].format(**words, got=verdict.got, expected=verdict.expected)
    window = f"; {_window(state)}" if state is not None or batch.producer_id >= 0 else ""
    return f"rejected {verdict.code} {error_name(verdict.code)}: {reason}{window}"


ACCEPTED = {
    "no_producer": "a batch without a producer id is not checked",
    "next": "{came} {are} the next of {who}",
    "first": "{came} {are} the first of {who}, which has no state here",
    "new_epoch": "{came} {are} the first of a new epoch: {who}",
    "no_epoch": "{came} of {who} {are} not checked, because the producer has no epoch yet",
    "unchecked": "{came} of {who} {are} from a broker, so wirebroker does not check the batch",
    "gap_accepted": "{came} of {who} {are} after a gap, which this profile accepts",
    "above_highest": "{came} of {who} {are} above the highest stored sequence",
}
"""For each rule that accepts a batch: the words with which the sentence from `explain` ends."""
REJECTED = {
    "epoch_fenced": "{who} is fenced: the current epoch is {expected}",
    "unissued_producer_id": "no broker issued the producer id {got}",
    "first_not_zero": "{who} has no state here and must begin at sequence 0, got {got}",
    "refused_until_new_id": "{who} left a gap and is refused until it has a new id",
    "new_epoch_not_zero": "a new epoch must begin at sequence 0, got sequence {got}: {who}",
    "gap": "expected sequence {expected} for {who}, got {got}",
    "before_window": "expected sequence {expected} for {who}, got {came}, older than the window",
    "write_failed": "the log could not be written; {came} of {who} {are} not stored",
    "not_in_transaction": "the coordinator knows no open transaction of {who} on this partition",
    "outside_transaction": "{came} {are} not transactional, but a transaction of {who} is open",
    "transaction_not_from_zero": "{who} has nothing stored, so its transaction must begin at sequence 0, got {got}",
    "after_verified": "{came} of {who} {are} after sequence {expected}, which was received earlier and is not stored yet",
    "overlap": "expected sequence {expected} for {who}, got {came}, which overlaps stored sequences",
}


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _window(state: bytes | None) -> str:
    if state is None:
        return "the window is empty"
    batches = [f"{_range(b.first_sequence, b.last_sequence)} @{b.first_offset}" for b in unpack(state).batches]
    return f"batches in the window: {', '.join(batches)}" if batches else "the window is empty"
