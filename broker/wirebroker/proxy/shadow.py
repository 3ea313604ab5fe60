"""The shadow verdict: the verdict that the sequence rules predict for a batch. The proxy compares it with the real broker's
response.

For each producer on each partition the shadow keeps a validator state, which it learns from forwarded batches. The shadow
predicts the verdict on a batch with the validator of wirebroker's own broker, and updates the state from the real broker's
response. The shadow makes its prediction when the response arrives. A broker handles a connection's requests in order, so at
this time the state includes the responses to all earlier requests.

If prediction and response differ, the shadow believes the response, because a client may have written directly to the broker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from kafkawire.batches import TRANSACTIONAL, BatchHeader
from kafkawire.errors import ErrorCode, error_name
from wirebroker.common.bounded import Bounded
from wirebroker.core.producers import (
    Accept,
    Duplicate,
    Reject,
    Verdict,
    advance,
    advance_in_order,
    epoch_of,
    explain,
    judge,
    last_offset,
    unpack,
)
from wirebroker.core.profile import Rules

LARGEST_OFFSET = 2**63 - 1
MOST_STATES = 100_000
"""The shadow remembers at most this many states (one for each producer on each partition). When it exceeds the limit, it
forgets the state that was unused for the longest time.
"""
KAFKA = Rules()
VALIDATOR_CODES = frozenset((
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
))  # fmt: skip
"""The errors by which the validator refuses a batch. No other error depends on the batch's sequence numbers."""
ABORTED = frozenset((
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE,
))  # fmt: skip
"""The errors with which a batch is refused after the coordinator has aborted its transaction."""
STORED_NEVERTHELESS = frozenset((ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT))
"""With these errors the leader has stored the batch nevertheless."""

UNSEEN = -2
"""A placeholder for a batch's offset, if only the batch's last sequence is known."""
LAST = BatchHeader(0, 0, -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
"""A placeholder for a producer's last batch, if only the batch's last sequence is known."""

Outcome = Literal["accepted", "duplicate", "rejected"]
Predicted = Literal["accepted", "duplicate", "rejected", "unknown"]
Key = tuple[str, int, int]
"""Topic, partition, producer id."""


class Judged(NamedTuple):
    """The prediction for one batch, and the broker's response to the batch."""

    verdict: Verdict | None
    """the prediction, or None if the proxy has seen too few batches"""
    state: bytes | None
    """the producer's state from which the verdict was predicted"""
    outcome: Outcome
    """the meaning of the broker's response, as far as the shadow can tell"""
    agrees: bool | None
    """whether prediction and response agree; None if there is no prediction, or if the response does not depend on sequences"""
    fenced_by: int = -1
    """if InitProducerId has given a later epoch to the producer id: this epoch, else −1"""
    outlived: int = 0
    """the transaction timeout in ms if the transaction was open for longer than the timeout, else 0"""

    @property
    def predicted(self) -> Predicted:
        """The kind of the predicted verdict, in one word."""
        return "unknown" if self.verdict is None else _name(self.verdict)

    @property
    def rule(self) -> str:
        """The rule that decided the verdict."""
        return "unknown" if self.verdict is None else self.verdict.rule

    def explain(self, topic: str, partition: int, batch: BatchHeader, code: int, base_offset: int) -> str:
        """Returns a sentence about the response and the prediction."""
        response = f"stored at offset {base_offset}" if base_offset >= 0 else "answered without an error and without an offset"
        if code:
            response = f"answered {code} {error_name(code)}"
        if self.fenced_by >= 0:
            given = f"InitProducerId has since given producer {batch.producer_id} the epoch {self.fenced_by}"
            return (
                f"{response}: epoch {batch.producer_epoch} is fenced, as {given}" if code else f"{response}, although {given}"
            )
        if self.outlived:
            asked = f"the timeout of {self.outlived} ms that its producer asked for in InitProducerId"
            return f"{response}: the transaction was open for longer than {asked}, so the coordinator aborted it"
        if self.verdict is None:
            return f"{response}: too few batches of producer {batch.producer_id} on {topic}-{partition} passed for a prediction"
        words = explain(self.verdict, batch, self.state, topic, partition)
        if batch.producer_id < 0:
            return response if code else words
        if self.agrees:
            return words
        return (
            f"{response}, but the sequences say: {words}" if self.agrees is False else f"{response}; the sequences say: {words}"
        )


class _Known(Struct):
    """The state of a producer on a partition. `whole` tells whether the proxy has seen every batch in the producer's window."""

    state: bytes
    whole: bool


class _Deadline(Struct):
    """The timeout in ms of a producer's transactions, and the time at which the open transaction began. Without an open
    transaction the time is 0."""

    timeout: int
    began: int = 0


class Deadlines:
    """The timeouts and start times of producers' transactions, learned from forwarded requests."""

    def __init__(self, most: int) -> None:
        self._known: Bounded[int, _Deadline] = Bounded(most)

    def given(self, producer_id: int, timeout: int) -> None:
        """Note the producer id and the transaction timeout of an InitProducerId. After an InitProducerId the producer has no
        open transaction.
        """
        self._known.put(producer_id, _Deadline(timeout))

    def ended(self, producer_id: int) -> None:
        """Note an EndTxn that succeeded."""
        if (known := self._known.get(producer_id)) is not None:
            known.began = 0

    def wrote(self, producer_id: int, code: int, now: int) -> int:
        """Note the response to a transactional batch. Returns the transaction timeout if the transaction was open for longer,
        which explains the error; otherwise 0.
        """
        known = self._known.get(producer_id)
        if known is None:
            return 0
        if not code:
            known.began = known.began or now
            return 0
        outlived = code in ABORTED and known.began and now - known.began >= known.timeout
        return known.timeout if outlived else 0


class Shadow:
    """The state of each producer on each partition, learned from forwarded batches."""

    def __init__(self, most: int = MOST_STATES) -> None:
        self._most = most
        self._states: OrderedDict[Key, _Known] = OrderedDict()
        self._new: Bounded[int, None] = Bounded(most)
        """New producer ids that InitProducerId returned through this proxy. No partition had earlier batches of these
        producers.
        """
        self._latest: Bounded[int, int] = Bounded(most)
        """The latest epoch that InitProducerId gave to each producer id."""
        self.deadlines = Deadlines(most)

    def states(self) -> Iterator[tuple[str, int, int, bytes, bool]]:
        """For each known producer, yields the topic, the partition, the producer id, the packed state, and whether the proxy
        has seen the producer's whole window.
        """
        for (topic, partition, producer_id), known in self._states.items():
            yield topic, partition, producer_id, known.state, known.whole

    def issued(self, producer_id: int, producer_epoch: int) -> None:
        """Note the response to an InitProducerId. Epoch 0 means that the producer id is new; a higher epoch may fence earlier
        epochs.
        """
        if producer_epoch == 0 and producer_id in self._latest:  # the cluster was emptied and reissues ids
            self._states = OrderedDict((key, known) for key, known in self._states.items() if key[2] != producer_id)
        self._latest.put(producer_id, producer_epoch)
        if producer_epoch == 0:
            self._new.put(producer_id, None)

    def forget(self, topics: Collection[str]) -> None:
        """Forget the producers of topics that were created again. Their partitions are empty."""
        for key in [key for key in self._states if key[0] in topics]:
            del self._states[key]

    def lacks(self, topic: str, partition: int, producer_id: int) -> bool:
        """Tells whether the shadow has no state of this producer on this partition, but the broker may have a state."""
        return producer_id >= 0 and producer_id not in self._new and (topic, partition, producer_id) not in self._states

    def described(self, topic: str, partition: int, producer_id: int, producer_epoch: int, last_sequence: int) -> None:
        """Note a producer from a response to DescribeProducers. If the shadow has no state of the producer, it takes the last
        sequence from the response.
        """
        if last_sequence >= 0 and self.lacks(topic, partition, producer_id):
            last = LAST._replace(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=last_sequence)
            self._know((topic, partition, producer_id), _Known(advance(None, last, UNSEEN, 0, KAFKA), whole=False))

    def unanswered(self, topic: str, partition: int, producer_id: int) -> None:
        """Forget the producer on this partition, because a batch was sent and its response was lost."""
        self._states.pop((topic, partition, producer_id), None)
        self._new.pop(producer_id, None)

    def judged(self, topic: str, partition: int, batch: BatchHeader, code: int, base_offset: int, now: int = 0) -> Judged:
        """Predict the verdict on a batch, compare it with the broker's response, and update the state from that response."""
        outlived = 0
        if batch.is_transactional:  # the proxy does not see markers, so it predicts from sequences only
            outlived = self.deadlines.wrote(batch.producer_id, code, now)
            batch = batch._replace(attributes=batch.attributes & ~TRANSACTIONAL)
        if batch.producer_id < 0:
            return Judged(Accept(base_offset, "no_producer"), None, "rejected" if code else "accepted", None)
        if not -1 <= base_offset <= LARGEST_OFFSET - abs(batch.last_offset_delta):
            self.unanswered(topic, partition, batch.producer_id)  # no log has such an offset
            return Judged(None, None, "rejected" if code else "accepted", None)
        key = topic, partition, batch.producer_id
        known = self._states.get(key)
        if known is not None and not code and (judged := self._next(key, known, batch, base_offset)) is not None:
            return judged
        verdict = self._verdict(known, batch, base_offset)
        outcome = _outcome(known, verdict, code, base_offset)
        agrees = None if outlived else _agreement(verdict, outcome, code)
        self._advance(key, batch, verdict, outcome, agrees, code, base_offset)
        latest = self._latest.get(batch.producer_id, -1)
        fenced_by = latest if batch.producer_epoch < latest else -1
        return Judged(verdict, known.state if known else None, outcome, agrees, fenced_by, outlived)

    def _next(self, key: Key, known: _Known, batch: BatchHeader, base_offset: int) -> Judged | None:
        """The fast path for a stored batch, if the batch is the producer's next batch, and the proxy has seen the producer's
        whole window. Returns None for any other batch.
        """
        _, _, producer_id = key
        if not known.whole or batch.producer_epoch < self._latest.get(producer_id, -1):
            return None
        epoch, sequence, delta, before = batch.producer_epoch, batch.base_sequence, batch.last_offset_delta, known.state
        state = advance_in_order(before, epoch, sequence, delta, base_offset, 0, KAFKA.window)
        if state is None:
            return None
        known.state = state
        self._states.move_to_end(key)
        return Judged(Accept(base_offset, "next"), before, "accepted", agrees=True)

    def _verdict(self, known: _Known | None, batch: BatchHeader, base_offset: int) -> Verdict | None:
        """Returns the predicted verdict, or None if the proxy has seen too few batches."""
        if batch.producer_epoch < self._latest.get(batch.producer_id, -1):
            return None  # the broker fences this batch only if the partition has a batch of the newer epoch
        if known is None:
            return judge(None, batch, KAFKA, base_offset) if batch.producer_id in self._new else None
        verdict = judge(known.state, batch, KAFKA, base_offset)
        if not known.whole and isinstance(verdict, Reject):
            return None  # batches that the proxy has not seen may explain the rejection
        if isinstance(verdict, Duplicate) and verdict.base_offset == UNSEEN:
            return None  # the first sequence of the stored batch is unknown, and may differ
        return verdict

    def _advance(
        self, key: Key, batch: BatchHeader, verdict: Verdict | None, outcome: Outcome, agrees: bool | None, code: int,
        base_offset: int,
    ) -> None:  # fmt: skip
        known = self._states.get(key)
        if outcome == "accepted" or (code in STORED_NEVERTHELESS and not isinstance(verdict, Duplicate)):
            self._know(key, _after(known, batch, verdict, base_offset))
        elif agrees is False:
            self._states.pop(key, None)  # the broker has seen batches that the proxy has not
        if agrees is False:
            self._new.pop(batch.producer_id, None)
        if key in self._states:
            self._states.move_to_end(key)

    def _know(self, key: Key, known: _Known) -> None:
        self._states[key] = known
        if len(self._states) > self._most:
            (_, _, forgotten), _ = self._states.popitem(last=False)
            self._new.pop(forgotten, None)


def _after(known: _Known | None, batch: BatchHeader, verdict: Verdict | None, base_offset: int) -> _Known:
    """Returns the state of a producer after the broker has stored its batch. The former state counts only if the proxy had
    predicted that the broker accepts the batch."""
    before = known if isinstance(verdict, Accept) else None
    state = advance(before.state if before else None, batch, base_offset, 0, KAFKA)
    first = before is None or epoch_of(before.state) != batch.producer_epoch
    begins = batch.base_sequence == 0 and first and isinstance(verdict, Accept)
    whole = begins or (before is not None and before.whole) or len(unpack(state).batches) >= KAFKA.window
    return _Known(state, whole)


def _name(verdict: Verdict) -> Predicted:
    return "accepted" if isinstance(verdict, Accept) else "duplicate" if isinstance(verdict, Duplicate) else "rejected"


def _outcome(known: _Known | None, verdict: Verdict | None, code: int, base_offset: int) -> Outcome:
    """Returns what the response means. Kafka responds to a retry without an error; only the offset shows that the batch is a
    duplicate.
    """
    if code:
        return "duplicate" if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else "rejected"
    if isinstance(verdict, Duplicate):
        return "duplicate" if verdict.base_offset in (base_offset, -1) else "accepted"
    earlier = known is not None and 0 <= base_offset <= last_offset(known.state)
    return "duplicate" if earlier and not isinstance(verdict, Accept) else "accepted"


def _agreement(verdict: Verdict | None, outcome: Outcome, code: int) -> bool | None:
    if verdict is None or (code and code not in VALIDATOR_CODES):
        return None
    if isinstance(verdict, Reject):
        return verdict.code == code
    return _name(verdict) == outcome
