"""Idempotence: how a partition treats a batch of a producer (ProducerStateManager, ProducerAppendInfo).

For each producer, a partition remembers the epoch, the last sequence, and the last five batches. If a new batch equals one of
these five, it is a retry. Any other batch must have the current epoch and the next sequence, or begin a higher epoch at
sequence 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_model.events import Batch
from kafka_model.possible import REPEATED, STORED, Outcome, refused

SEQUENCES = 2**31
WINDOW = 5
LAST_EPOCH = 32767
OUT_OF_ORDER, OLD_EPOCH, NOT_IN_TRANSACTION = 45, 47, 48


class Kept(NamedTuple):
    """A batch that a partition remembers."""

    first: int
    last: int
    offset: int | None
    """The batch's first offset, or None if the response was lost."""


class Verification(NamedTuple):
    """A partition's state until the first batch of a transaction is stored. `lowest` is the lowest sequence of the
    transaction's batches that have arrived."""

    lowest: int
    epoch: int
    implicit: bool
    """Tells whether Produce itself adds the partition to the transaction (from version 12)."""

    def seeing(self, batch: Batch) -> Verification:
        if batch.epoch > self.epoch:
            return self._replace(epoch=batch.epoch, lowest=batch.sequence)
        return self._replace(lowest=min(self.lowest, batch.sequence)) if batch.epoch == self.epoch else self


class Producer(NamedTuple):
    """A producer on a partition. The epoch is −1 until there is a batch or a marker."""

    epoch: int = -1
    last: int = -1
    window: tuple[Kept, ...] = ()
    open_since: int = -1
    """The first offset of the producer's open transaction, or −1."""
    verification: Verification | None = None
    vague: bool = False
    """Tells whether the producer may have batches that the model has not seen, or may be in any state."""

    @property
    def is_open(self) -> bool:
        return self.open_since >= 0

    def found(self, batch: Batch) -> Kept | None:
        """Returns the remembered batch if `batch` is a retry of it."""
        same = (kept for kept in self.window if (kept.first, kept.last) == (batch.sequence, batch.last))
        return next(same, None) if batch.epoch == self.epoch else None

    def stored(self, batch: Batch, offset: int | None) -> Producer:
        """Returns the producer after the batch was stored. The offset is None if nobody knows it."""
        older = self.window if batch.epoch == self.epoch else ()
        window = (Kept(batch.sequence, batch.last, offset), *older)[:WINDOW]
        since = (self.open_since if self.is_open else offset or 0) if batch.transactional else self.open_since
        awaited = None if batch.transactional else self.verification
        return Producer(batch.epoch, batch.last, window, since, awaited, self.vague and len(window) < WINDOW)

    def ended(self, epoch: int) -> Producer:
        """Returns the producer after the marker of its transaction. A marker with a new epoch removes all remembered
        batches."""
        if epoch == self.epoch:
            return self._replace(open_since=-1)
        return Producer(epoch, verification=self.verification)

    def restarted(self) -> Producer:
        """Returns the producer after a restart. The restart loads only the producer's last batch from a snapshot."""
        return self._replace(window=self.window[:1], verification=None)


NOBODY = Producer()
ANYBODY = Producer(vague=True)
"""A producer about which nothing is known."""


def append(producer: Producer, batch: Batch, seen: Outcome, verified: bool) -> Iterator[tuple[Outcome, Producer]]:
    """Yields the possible outcomes of a sound batch on the partition. `verified`: the coordinator has confirmed the batch's
    transaction."""
    offset = seen.detail if seen.what == STORED and isinstance(seen.detail, int) else -1
    after = producer.stored(batch, offset)
    if producer.vague:
        yield Outcome(REPEATED), producer
        if producer.epoch < 0:
            yield from ((Outcome(STORED), after), (Outcome("refused"), producer))
            return
    code = _error(producer, batch, verified)
    if (kept := producer.found(batch)) is not None:
        yield Outcome(REPEATED, kept.offset), producer
    elif code:
        yield refused(code), producer
    else:
        yield Outcome(STORED), after


def _error(producer: Producer, batch: Batch, verified: bool) -> int:
    if batch.epoch < producer.epoch:
        return OLD_EPOCH
    ongoing = producer.is_open and batch.epoch == producer.epoch
    if batch.transactional and not ongoing and not verified:
        return NOT_IN_TRANSACTION
    if _is_out_of_order(producer, batch):
        return OUT_OF_ORDER
    return NOT_IN_TRANSACTION if producer.is_open and not batch.transactional else 0


def _is_out_of_order(producer: Producer, batch: Batch) -> bool:
    awaited = producer.verification
    if awaited is not None:
        if awaited.implicit and not producer.window and batch.sequence:
            return True
        if batch.sequence > awaited.lowest:
            return True
    if batch.epoch != producer.epoch:
        return batch.sequence != 0 and producer.epoch != -1
    return producer.epoch != -1 and batch.sequence != (producer.last + 1) % SEQUENCES


def mark(producer: Producer, epoch: int, strict: bool) -> int:
    """Returns the error with which the partition refuses a marker, or 0. `strict`: transaction version 2."""
    if strict and epoch == producer.epoch:
        return OLD_EPOCH if producer.is_open and epoch != LAST_EPOCH else 0
    return OLD_EPOCH if epoch < producer.epoch else 0
