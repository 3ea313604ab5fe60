"""Finds transactions that exceeded their timeout, and open transactions whose producer is inactive."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from msgspec import Struct, field

from wirebroker.trace.rows import ConnectionRow, FetchRow, ProduceRow, ReplyRow, Row, TransactionRow
from wirebroker.trace.selection import transactions_of
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.findings import Evidence, Finding, Shot
from wirebroker_tools.explain.words import SECOND, Client, at, client_of, equal, ms, number_in, tool

ENDS = frozenset(("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"))
"""The errors that a producer gets if the coordinator itself has aborted its transaction."""
BEGINS = frozenset(("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce"))
ABORTED = frozenset(("PrepareAbort", "PrepareEpochFence", "CompleteAbort"))
SWEEP = 10 * SECOND
"""A coordinator may abort a transaction up to this many ms after its timeout. The number is the default of
transaction.abort.timed.out.transaction.cleanup.interval.ms."""
IDLE = 5 * SECOND
"""An open transaction is a finding if consumers wait for its end, and if its producer has sent nothing for this many ms."""
STUCK = 15 * SECOND
"""A partition is a finding if its last stable offset has not moved for this many ms, and no open transaction in the trace
explains this."""
NAMED = 8
MOST_WRITERS = 100
MOST_ENDED = 100
WITHOUT_ABORT = (
    "the application died, or got an exception and went on without abortTransaction()",
    "the application's handling of exceptions",
)
"""The usual cause of an open transaction, and what to look at."""
NOBODY = Client("", "", "")
Partition = tuple[str, int]


class _Transaction(Struct):
    """The state of a transactional id according to the trace: its producer, and its open transaction."""

    client: Client = NOBODY
    producer_id: int = -1
    producer_epoch: int = -1
    timeout: int = 0
    """the transaction timeout in ms; 0 if the trace has no InitProducerId of the producer"""
    began: int = 0
    """the time at which the open transaction began; 0 if no transaction is open"""
    active: int = 0
    """the time of the producer's latest request"""
    closed: int = 0
    """the time at which the producer's last connection closed; 0 if a connection is open"""
    aborted: int = 0
    """the time at which the coordinator aborted the transaction although no client had sent an EndTxn"""
    connections: set[int] = set()
    partitions: dict[Partition, None] = {}
    waiting: int = 0
    """the number of fetches that cannot read past the start of the open transaction"""
    evidence: Evidence = field(default_factory=Evidence)

    def end(self) -> None:
        """Remember that the open transaction has ended."""
        self.began = self.closed = self.waiting = self.aborted = 0
        self.partitions.clear()
        self.evidence = Evidence()


class _Ended(Struct):
    """A transaction that timed out."""

    name: str
    client: Client
    timeout: int
    began: int
    noticed: int
    error: str
    evidence: Evidence


class _Stable(Struct):
    """A partition's last stable offset, the time of its latest change, and the high watermark."""

    offset: int = -1
    since: int = 0
    end: int = 0
    evidence: Evidence = field(default_factory=Evidence)


class Transactions(Detector):
    """Finds `transaction_timed_out` and `open_transaction`."""

    events = ("reply", "produce", "shadow", "fetch", "connection", "transaction")

    def __init__(self) -> None:
        self._known: Known[str, _Transaction] = Known(_Transaction)
        self._names: Known[int, list[str]] = Known(list)
        """For each producer id, a list with one element: the transactional id."""
        self._writers: Known[Partition, dict[str, None]] = Known(dict)
        """For each partition: the transactional ids that have written to it, in the order of their latest writes."""
        self._ended: list[_Ended] = []
        self._stable: Known[Partition, _Stable] = Known(_Stable)

    def begin_run(self) -> None:
        """Forget the connections, because in a new run they have other numbers."""
        for known in self._known.values():
            known.connections.clear()

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, ReplyRow):
            for name in transactions_of(row):
                self._replied(number, row, name)
        elif isinstance(row, ProduceRow):
            if row.transactional and (names := self._names.get(row.producer_id)):
                self._produced(number, row, names[0])
        elif isinstance(row, FetchRow):
            if row.committed and not row.code:
                self._fetched(number, row)
        elif isinstance(row, TransactionRow):
            self._changed(number, row)
        elif isinstance(row, ConnectionRow) and row.change == "closed":
            for known in self._known.values():
                if row.connection not in known.connections:
                    continue
                known.connections.discard(row.connection)
                if known.began and not known.connections:
                    known.closed = row.time
                    known.evidence.add(number, row)

    def _replied(self, number: int, row: ReplyRow, name: str) -> None:
        known = self._known[name]
        if row.api == "InitProducerId" and not row.errors:
            known.end()
            known.client, known.producer_id, known.producer_epoch = client_of(row), row.producer_id, row.producer_epoch
            known.timeout = number_in(row.details, "transaction_timeout_ms")
            self._names[row.producer_id][:] = [name]
        elif row.api == "EndTxn" and not row.errors:
            known.end()
        elif row.api in BEGINS and not row.errors:
            self._goes_on(known, number, row, row.time - row.latency)
        elif row.errors and row.api != "InitProducerId":
            self._failed(known, name, number, row, next(iter(ENDS & set(row.errors)), ""))
        if row.api != "FindCoordinator":
            known.active = row.time
            known.connections.add(row.connection)
            if len(known.connections) > NAMED:
                known.connections = {row.connection}

    def _goes_on(self, known: _Transaction, number: int, row: Row, time: int) -> None:
        if not known.began:
            known.began = time
            known.evidence.add(number, row)
        known.active, known.closed = row.time, 0

    def _produced(self, number: int, row: ProduceRow, name: str) -> None:
        known = self._known[name]
        if row.verdict == "rejected":
            self._failed(known, name, number, row, row.error if row.error in ENDS else "")
            return
        known.client = client_of(row)
        self._goes_on(known, number, row, row.time)
        place = row.topic, row.partition
        if place not in known.partitions and len(known.partitions) < NAMED:
            known.partitions[place] = None
            writers = self._writers[place]
            writers.pop(name, None)
            writers[name] = None
            if len(writers) > MOST_WRITERS:
                writers.pop(next(iter(writers)))

    def _failed(self, known: _Transaction, name: str, number: int, row: Row, error: str) -> None:
        """Handle an error of a producer. If the error comes after the transaction timeout, the coordinator has aborted the
        transaction and increased the epoch."""
        if not error or not known.began:
            return
        known.evidence.add(number, row)
        if known.timeout and row.time - known.began >= known.timeout:
            self._note(name, known, row.time, error)
        known.end()

    def _note(self, name: str, known: _Transaction, noticed: int, error: str) -> None:
        ended = _Ended(name, known.client, known.timeout, known.began, noticed, error, known.evidence)
        if len(self._ended) < MOST_ENDED:
            self._ended.append(ended)

    def _changed(self, number: int, row: TransactionRow) -> None:
        """Handle a row that shows that the coordinator has aborted a transaction. Only a trace of a wirebroker broker has such
        rows."""
        known = self._known.get(row.transactional_id)
        if known is None or not known.began or known.aborted or row.state not in ABORTED:
            return
        if known.timeout and row.time - known.began >= known.timeout:
            known.aborted = row.time
            known.evidence.add(number, row)

    def _fetched(self, number: int, row: FetchRow) -> None:
        place = row.topic, row.partition
        stable = self._stable[place]
        if row.last_stable_offset >= row.high_watermark:
            stable.offset = -1
            return
        if stable.offset != row.last_stable_offset:
            stable.offset, stable.since, stable.evidence = row.last_stable_offset, row.time, Evidence()
        stable.end = row.high_watermark
        stable.evidence.add(number, row)
        for name in self._writers.get(place) or ():
            known = self._known.get(name)
            if known is not None and known.began and place in known.partitions:
                known.waiting += 1
                if known.waiting <= 2:
                    known.evidence.add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each of these: a transaction that timed out, an open transaction whose producer is inactive, and
        a partition with an open transaction that is not in the trace.
        """
        for ended in self._ended:
            yield _timed_out(ended, now)
        open_on: set[Partition] = set()
        for name, known in self._known.items():
            if not known.began:
                continue
            open_on.update(known.partitions)
            over = known.timeout and now - known.began >= known.timeout + SWEEP
            if known.aborted or over:
                ended = _Ended(name, known.client, known.timeout, known.began, known.aborted, "", known.evidence)
                yield _timed_out(ended, now)
            elif self._is_left(known, now):
                yield _open(name, known, now)
        for place, stable in self._stable.items():
            if stable.offset >= 0 and place not in open_on and stable.evidence.last_time - stable.since >= STUCK:
                yield _unknown(place, stable)

    def _is_left(self, known: _Transaction, now: int) -> bool:
        """Tells whether the producer of an open transaction has closed its connections, or has sent nothing for too long."""
        if known.closed:
            return True
        idle = now - known.active
        return idle >= IDLE and (known.waiting > 0 or (known.timeout > 0 and idle >= known.timeout // 2))


def _timed_out(ended: _Ended, now: int) -> Finding:
    then = "its coordinator aborted it" if ended.noticed else "its coordinator has aborted it already, or is about to abort it"
    if ended.error:
        then = f"the coordinator had aborted it when the producer went on at {at(ended.noticed)} and got {ended.error}"
    sentence = (
        f"The transaction of {ended.name!r} that began at {at(ended.began)} outlived its timeout of {ms(ended.timeout)}, which "
        f"{ended.client} itself asked for in InitProducerId: {then}, {ms((ended.noticed or now) - ended.began)} after it began."
    )
    return Finding(
        "transaction_timed_out", sentence,
        "the application takes too long from the first record to the commit: a pause, a slow sink, a large batch",
        "transaction.timeout.ms of the producer (the broker's transaction.max.timeout.ms limits it), and what the application "
        "does before it commits", equal("transaction", ended.name), ended.evidence, ended.began, _shot(ended.name), ended.began,
    )  # fmt: skip


def _shot(name: str) -> Shot:
    return Shot("sequence", "", equal("transaction", name), whole=True)


def _open(name: str, known: _Transaction, now: int) -> Finding:
    where = ", ".join(f"{topic}-{partition}" for topic, partition in known.partitions) or "its partitions"
    last = f"its producer's connection closed at {at(known.closed)}" if known.closed else (
        f"its producer has sent nothing since {at(known.active)}"
    )  # fmt: skip
    held = f"; it holds back {known.waiting:,} fetches of read_committed readers" if known.waiting else ""
    limit = f"; its coordinator aborts it {ms(known.timeout)} after its beginning" if known.timeout else ""
    sentence = (
        f"The transaction of {name!r} ({known.client}, producer {known.producer_id} epoch {known.producer_epoch}) on {where} "
        f"has been open since {at(known.began)}, for {ms(now - known.began)}: {last}{held}{limit}."
    )
    return Finding(
        "open_transaction", sentence,
        WITHOUT_ABORT[0], f"{WITHOUT_ABORT[1]}; {tool('kafka-transactions', f'describe --transactional-id {quote(name)}')}",
        equal("transaction", name), known.evidence, now - known.began, _shot(name), known.began,
    )  # fmt: skip


def _unknown(place: Partition, stable: _Stable) -> Finding:
    name = f"{place[0]}-{place[1]}"
    sentence = (
        f"A transaction whose producer is not in this trace has been open on {name} since {at(stable.since)} or earlier: "
        f"readers with read_committed stop at offset {stable.offset}, and the log goes on to {stable.end}."
    )
    return Finding(
        "open_transaction", sentence,
        "its producer died or hangs; if no timeout ends the transaction, the coordinator has forgotten it",
        f"{tool('kafka-transactions', f'find-hanging --topic {quote(place[0])} --partition {place[1]}')}, and then abort",
        f"event=fetch {equal('topic', place[0])} partition={place[1]}", stable.evidence, stable.evidence.span,
        Shot("log", name),
    )  # fmt: skip
