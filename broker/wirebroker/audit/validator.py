"""Judges one partition's arrivals again under other rules, for the "what if" of both audits.

Some verdicts do not depend on the rules, and do not change: a batch stays rejected if it was rejected for its records or for
its transaction, or because a write failed.
"""

from __future__ import annotations

from typing import Literal, Protocol

from kafkawire.batches import BatchHeader
from wirebroker.core.producers import REJECTED, Accept, Duplicate, Key, Reject, Verdict, advance, judge, last_timestamp, poison
from wirebroker.core.profile import Rules

Change = Literal["saved", "lost", "doubled"]
"""The ways in which the verdict under other rules can differ. saved: a retry that was not recognised is recognised. lost: a
batch that was accepted or recognised is rejected. doubled: a retry that was recognised is stored again."""
COUNTS = ("accepted", "recognised", "rejected", "beyond", "records", "state_bytes")
"""The counts of a `Validator`."""
_JUDGED = REJECTED.keys() - {
    "write_failed", "not_in_transaction", "outside_transaction", "transaction_not_from_zero", "after_verified",
}  # fmt: skip
"""The rules of `judge` that reject an epoch or a sequence. Rejections by other rules do not depend on the profile."""


class Arrival(Protocol):
    """The fields of a `ProduceRow` that the validator reads."""

    @property
    def time(self) -> int:
        """The time of arrival, in ms since the epoch."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def first_sequence(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def verdict(self) -> str: ...
    @property
    def rule(self) -> str: ...


class Validator:
    """The validator of one partition under other rules. It takes the arrivals in order, the oldest arrival first.

    If `rules` is None, the broker has no idempotence. Except for `records` and `state_bytes`, all counts are numbers of
    batches.
    """

    def __init__(self, rules: Rules | None, expiration_ms: int) -> None:
        self.accepted = self.recognised = self.rejected = 0
        self.records = 0
        """the number of records that would be stored"""
        self.beyond = 0
        """the number of arrivals after the first changed verdict on a batch of the same producer; the other counts include
        these arrivals"""
        self._rules = rules
        self._expiration_ms = expiration_ms
        self._states: dict[Key, bytes] = {}
        self._diverged: set[Key] = set()

    @property
    def state_bytes(self) -> int:
        """The size of the state of all producers."""
        return sum(map(len, self._states.values()))

    def take(self, row: Arrival) -> Change | None:
        """Judge the next arrival. Returns how the verdict differs from the original verdict, or None if it does not differ."""
        key = self._key(row)
        self.beyond += key in self._diverged
        state = self._states.get(key)
        if state is not None and row.time - last_timestamp(state) >= self._expiration_ms:
            state = None
        header = _header(row)
        verdict = self._verdict(row, header, state)
        if isinstance(verdict, Accept) and verdict.rule != "no_producer" and self._rules is not None:
            self._states[key] = advance(state, header, self.records, row.time, self._rules)
        elif isinstance(verdict, Reject) and verdict.poisons and state is not None:
            self._states[key] = poison(state)
        name = _name(verdict, row)
        self._count(row, name)
        if name == row.verdict:
            return None
        self._diverged.add(key)
        return _change(row.verdict, name)

    def _key(self, row: Arrival) -> Key:
        by_name = self._rules is not None and self._rules.key == "client_id"
        return row.client_id or "" if by_name else row.producer_id

    def _verdict(self, row: Arrival, header: BatchHeader, state: bytes | None) -> Verdict | None:
        """Returns the verdict under these rules, or None if the verdict does not depend on the rules."""
        if row.verdict == "rejected" and row.rule not in _JUDGED:
            return None
        rules, end = self._rules, self.records
        if rules is None or row.first_sequence < 0 or (row.producer_id < 0 and rules.key == "producer_id"):
            return Accept(end, "no_producer")
        return judge(state, header, rules, end, issued=row.rule != "unissued_producer_id")

    def _count(self, row: Arrival, name: str) -> None:
        if name == "accepted":
            self.accepted += 1
            self.records += row.records
        elif name == "duplicate":
            self.recognised += 1
        else:
            self.rejected += 1


def _header(row: Arrival) -> BatchHeader:
    """Returns a header with the fields that `judge` reads. The header is never transactional, because this module does not
    judge by the rules about transactions."""
    return BatchHeader(
        0, row.bytes, -1, 2, 0, 0, row.records - 1, row.time, row.time, row.producer_id, row.producer_epoch,
        row.first_sequence, row.records,
    )  # fmt: skip


def _name(verdict: Verdict | None, row: Arrival) -> str:
    if verdict is None:
        return row.verdict
    if isinstance(verdict, Accept):
        return "accepted"
    return "duplicate" if isinstance(verdict, Duplicate) else "rejected"


def _change(was: str, now: str) -> Change | None:
    """Returns the kind of change between two verdicts.

    A rejected batch that is now accepted has the kind None, because it is neither a saved nor a doubled retry.
    """
    if now == "accepted":
        return "doubled" if was == "duplicate" else None
    return "saved" if now == "duplicate" else "lost"
