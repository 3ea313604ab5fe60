"""The transactions of a real cluster behind a proxy. A proxy has no coordinator, so it derives the states of transactions from
requests and responses.

    Empty ──▶ Ongoing ──▶ CompleteCommit, CompleteAbort ──▶ Ongoing …

A request changes the state only after a broker has confirmed it. `ABORTS_WITHIN_MS` after its timeout, a transaction counts as
aborted, because its coordinator must have aborted it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkawire.errors import ErrorCode
from kafkawire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wirebroker.common.bounded import Bounded, cut
from wirebroker.proxy.sender import UNKNOWN, Sender

EMPTY, ONGOING, COMMITTED, ABORTED = "Empty", "Ongoing", "CompleteCommit", "CompleteAbort"
MOST_IDS = 10_000
"""The proxy remembers at most this many transactional ids. When it exceeds the limit, it forgets the id that was unused for the
longest time.
"""
MOST_PARTITIONS = 1_000
"""The proxy remembers at most this many partitions of a transaction."""
ABORTS_WITHIN_MS = 10_000
"""A coordinator notices a timeout within this many ms (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""
NONE = -1
OFFSETS_TOPIC, UNKNOWN_PARTITION = "__consumer_offsets", -1
"""The topic with committed offsets. A transaction that commits offsets also includes a partition of this topic. The proxy
cannot see the index of this partition.
"""
ENDED_BY_BROKER = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED))
"""The errors of an EndTxn after the coordinator has aborted the transaction, because of a timeout or a new producer."""


class PassingTransaction(Struct):
    """A transactional id and its latest transaction. Times are in ms since the epoch; −1 means that there is no time."""

    transactional_id: str
    state: str = EMPTY
    producer_id: int = NONE
    producer_epoch: int = NONE
    timeout_ms: int = NONE
    started: int = NONE
    updated: int = NONE
    partitions: set[tuple[str, int]] = set()
    sender: Sender = UNKNOWN
    """The last client that used the transactional id."""


class PassingTransactions:
    """The transactions in forwarded requests and responses."""

    def __init__(self) -> None:
        self._held: Bounded[str, PassingTransaction] = Bounded(MOST_IDS)

    def __iter__(self) -> Iterator[PassingTransaction]:
        return iter(self._held.values())

    def at(self, now: int) -> Iterator[PassingTransaction]:
        """Returns the transactional ids with their states at the time `now`. A transaction that has timed out counts as
        aborted.
        """
        for each in self:
            if each.state == ONGOING and 0 < each.timeout_ms < now - each.started - ABORTS_WITHIN_MS:
                self._end(each, ABORTED, each.updated)
            yield each

    def initialised(
        self, now: int, sender: Sender, request: InitProducerIdRequest, response: InitProducerIdResponse
    ) -> PassingTransaction | None:
        """Note a producer's InitProducerId, which ends the open transaction of the previous producer with this transactional
        id.
        """
        if request.transactional_id is None or response.error_code:
            return None
        each = self._known(request.transactional_id, sender)
        each.producer_id, each.producer_epoch = response.producer_id, response.producer_epoch
        each.timeout_ms = request.transaction_timeout_ms
        if not (request.keep_prepared_txn and response.ongoing_txn_producer_id >= 0):
            self._end(each, EMPTY, now)
        return each

    def superseded(
        self, now: int, request: InitProducerIdRequest, response: InitProducerIdResponse
    ) -> PassingTransaction | None:
        """Mark the open transaction of the transactional id as aborted, because this InitProducerId begins a new producer, and
        return the transaction. If the transaction's timeout was over, the coordinator had already aborted it.
        """
        if request.transactional_id is None or response.error_code or response.ongoing_txn_producer_id >= 0:
            return None
        each = self._held.get(cut(request.transactional_id))
        if each is None or each.state != ONGOING:
            return None
        self._end(each, ABORTED, now)
        return each

    def added(
        self, now: int, sender: Sender, request: AddPartitionsToTxnRequest, response: AddPartitionsToTxnResponse
    ) -> PassingTransaction | None:
        """Note the partitions of an AddPartitionsToTxn. A request with several transactions comes only from a broker, and
        brokers do not send through the proxy.
        """
        added = [
            (topic.name, each.partition_index)
            for topic in response.results_by_topic_v3_and_below for each in topic.results_by_partition
            if not each.partition_error_code
        ]  # fmt: skip
        of = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        return self.written(now, sender, request.v3_and_below_transactional_id, of, added)

    def offsets_added(
        self, now: int, sender: Sender, request: AddOffsetsToTxnRequest, response: AddOffsetsToTxnResponse
    ) -> PassingTransaction | None:
        """Remember that a producer has added a group to its transaction, in order to commit the group's offsets."""
        if response.error_code:
            return None
        of = request.producer_id, request.producer_epoch
        return self.written(now, sender, request.transactional_id, of, [(OFFSETS_TOPIC, UNKNOWN_PARTITION)])

    def written(
        self, now: int, sender: Sender, transactional_id: str, of: tuple[int, int], partitions: Iterable[tuple[str, int]]
    ) -> PassingTransaction | None:
        """Note partitions that a producer has added to its transaction, explicitly or by writing to them (KIP-890)."""
        partitions = list(partitions)
        if not transactional_id or not partitions:
            return None
        each = self._known(transactional_id, sender)
        each.producer_id, each.producer_epoch = of
        if each.state != ONGOING:
            each.state, each.started = ONGOING, now
        elif each.partitions.issuperset(partitions):
            return None
        each.updated = now
        each.partitions.update(partitions[: max(MOST_PARTITIONS - len(each.partitions), 0)])
        return each

    def ended(self, now: int, sender: Sender, request: EndTxnRequest, response: EndTxnResponse) -> PassingTransaction | None:
        """Remember that a producer has ended its transaction, or has learned from an error that its transaction has ended."""
        if response.error_code and response.error_code not in ENDED_BY_BROKER:
            return None
        each = self._known(request.transactional_id, sender)
        if response.error_code:
            if (each.producer_id, each.producer_epoch) != (request.producer_id, request.producer_epoch):
                return None  # the producer is fenced, and the transaction belongs to another producer
        elif response.producer_id >= 0:
            each.producer_id, each.producer_epoch = response.producer_id, response.producer_epoch
        self._end(each, COMMITTED if request.committed and not response.error_code else ABORTED, now)
        return each

    def _known(self, transactional_id: str, sender: Sender) -> PassingTransaction:
        name = cut(transactional_id)
        each = self._held.get_or_make(name, lambda: PassingTransaction(name))
        each.sender = sender
        return each

    def _end(self, each: PassingTransaction, state: str, now: int) -> None:
        each.state, each.started, each.updated = state, NONE, now
        each.partitions = set()


def names(transaction: PassingTransaction) -> Iterator[str]:
    """Yields the partitions of a transaction, with the names that trace rows have."""
    for topic, index in sorted(transaction.partitions):
        yield topic if index < 0 else f"{topic}-{index}"
