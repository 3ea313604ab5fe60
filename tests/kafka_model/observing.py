"""Turns a history of requests into the observations of its clients: their sends, the transactions of these sends, and their
polls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka_model.anomalies import Anomaly, Poll, Send, Transaction, anomalies
from kafka_model.events import Batch, End, Forget, Id, Init, Part, Produce, Where
from kafka_model.history import Exchange, History, Json
from kafka_model.reading import code_of, events_of
from kafkawire.batches import iter_batches, iter_records, read_header

AGAIN = frozenset({3, 5, 6, 7, 13, 14, 15, 16, 19, 20, 41, 45, 51, 56, 100})
"""After these errors a producer sends the value again, so a later request may store the value."""


class _Begun(NamedTuple):
    name: str
    producer: str
    epoch: int


class Clients:
    """Follows a history. A transaction's name consists of its producer's id and epoch, and of the number of transactions before
    it."""

    def __init__(self) -> None:
        self.sends: dict[str, Send] = {}
        self.transactions: dict[str, Transaction] = {}
        self.polls: list[Poll] = []
        self.begins: dict[Where, int] = {}
        self._sequences: dict[Any, tuple[str, ...]] = {}
        """The values of each batch. The key is the same for all retries of the batch."""
        self._open: dict[Id, _Begun] = {}
        self._count = 0
        self._deleted: Counter[str] = Counter()

    def see(self, exchange: Exchange) -> None:
        if exchange.api == "Fetch":
            self.polls += [each._replace(where=self._in_this_life(each.where)) for each in _polls(exchange)]
        for event in events_of(exchange):
            match event:
                case Produce():
                    for part in event.parts:
                        for batch in part.batches if event.acks or part.code else ():
                            self._sent(part, batch, event)
                case Forget(only_records=False):
                    self._deleted[event.topic] += 1
                case End():
                    self._ended(event, exchange)
                case Init() if event.code is not None and event.transactional_id is not None:
                    self._superseded(event.transactional_id)

    def _in_this_life(self, where: Where) -> Where:
        """Returns the partition. It gets another name after each deletion of its topic, because a topic that is created again
        has new offsets and records."""
        topic, number = where
        return (f"{topic} after deletion {times}", number) if (times := self._deleted[topic]) else where

    def _sent(self, part: Part, batch: Batch, event: Produce) -> None:
        name = None
        if batch.verified:
            begun = self._open.get(batch.producer_id)
            if begun is None or (part.code == 0 and batch.epoch > begun.epoch):  # the former transaction has timed out
                self._count += 1
                name = f"transaction {self._count}"
                begun = self._open[batch.producer_id] = _Begun(name, event.transactional_id or "", batch.epoch)
                self.transactions[begun.name] = Transaction(begun.name, begun.producer, None)
            name = begun.name
        known = None if part.code is None or part.code in AGAIN else not part.code
        key = (self._in_this_life(part.where), batch.producer_id, batch.epoch, batch.sequence)
        if batch.checked and known is not False and self._sequences.setdefault(key, batch.values) != batch.values:
            return  # the broker takes other records with the same sequence for a retry
        for number, value in enumerate(batch.values):
            before = self.sends.get(value)
            if before is not None and (before.acknowledged or not known):
                continue
            offset = part.offset + number if known and part.offset >= 0 else None
            self.sends[value] = Send(value, self._in_this_life(part.where), known if before is None else known or None, offset,
                                     name if before is None else before.transaction)  # fmt: skip

    def _ended(self, event: End, exchange: Exchange) -> None:
        begun = self._open.get(event.producer_id)
        if begun is None or event.code in AGAIN:
            return
        known = self.transactions[begun.name]
        ended = exchange.asked if known.ended < 0 else known.ended
        if event.code is None:
            self.transactions[begun.name] = known._replace(ended=ended)
            return
        committed = event.commit if not event.code else None
        self.transactions[begun.name] = known._replace(committed=committed, ended=ended)
        del self._open[event.producer_id]

    def _superseded(self, transactional_id: str) -> None:
        """Another producer has taken over the transactional id. If the former producer had sent EndTxn, nobody knows whether
        its transaction was committed."""
        for producer_id, begun in list(self._open.items()):
            if begun.producer == transactional_id:
                del self._open[producer_id]
                known = self.transactions[begun.name]
                if known.ended < 0:
                    self.transactions[begun.name] = known._replace(committed=False)


def _polls(exchange: Exchange) -> Iterator[Poll]:
    asked: Json = exchange.request
    committed = asked.get("isolation_level", 0) == 1
    names = exchange.names or {}
    offsets = {
        (_topic(topic, names), part.get("partition", 0)): part.get("fetch_offset", 0)
        for topic in asked.get("topics", ())
        for part in topic.get("partitions", ())
    }
    for topic in (exchange.response or {}).get("responses", ()):
        for part in topic.get("partitions", ()):
            where = _topic(topic, names), part.get("partition_index", 0)
            if where in offsets and not code_of(part) and isinstance(part.get("records"), bytes):
                yield _poll(where, offsets[where], part, committed, exchange.answered)


def _topic(topic: Json, names: dict[Any, str]) -> str:
    return topic.get("topic") or names.get(topic.get("topic_id"), str(topic.get("topic_id")))


def _poll(where: Where, first: int, part: Json, committed: bool, time: int) -> Poll:
    """Returns the records that an application gets: no markers and, with read_committed, no aborted records."""
    waiting = sorted(part.get("aborted_transactions") or (), key=lambda each: each["first_offset"])
    aborting: set[int] = set()
    records: list[tuple[int, str]] = []
    end = first
    for batch in iter_batches(memoryview(part["records"])):
        header = read_header(batch)
        while waiting and waiting[0]["first_offset"] <= header.last_offset:
            aborting.add(waiting.pop(0)["producer_id"])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in aborting):
            found = ((header.base_offset + each.offset_delta, each.value or b"") for each in iter_records(batch))
            records += [(offset, value.decode("latin-1")) for offset, value in found if offset >= first]
        end = header.last_offset + 1
    return Poll(where, first, end, tuple(records), committed, time)


def observe(history: History) -> Clients:
    clients = Clients()
    for each in history:
        if isinstance(each, Exchange):
            clients.see(each)
    return clients


def anomalies_of(history: History) -> list[Anomaly]:
    """Returns the anomalies that the clients of a history have seen. Values must be unique."""
    clients = observe(history)
    return anomalies(clients.sends.values(), clients.transactions.values(), clients.polls, clients.begins)
