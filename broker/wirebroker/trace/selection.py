"""Selects the rows of a trace that belong to a topic, a client, a principal, a producer, a transaction or a group.

A row belongs to a subject if the row names the subject. But the rows of requests and responses do not name a producer, and the
row of a batch does not name a transactional id. Therefore the caller first passes all rows to `learn`, which remembers the
connections and exchanges of rows that name the subject. Then `has` also finds the other rows of these connections and
exchanges. And the row of a completed transaction does not name the transaction's partitions, so `learn` remembers this row if
the transaction has written to the topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import astuple

from wirebroker.common.suggestions import did_you_mean
from wirebroker.requests import details
from wirebroker.requests.facts import Batch
from wirebroker.trace.rows import FaultRow, GroupRow, ProduceRow, ReplyRow, RequestRow, Row, ShareRow, TopicRow, TransactionRow

_IN_NAME = re.compile(r"(.*)-(\d+)")
GROUP, TRANSACTION = "group ", "transaction "
"""In a row's list of names, groups and transactional ids have these prefixes; topics have no prefix."""
ExchangeKey = tuple[int, int, int]
"""The numbers of an exchange in a trace: node, connection, correlation id."""
SHOWN = 10
"""A message lists at most this many names."""


def topics_of(row: Row) -> Iterator[tuple[str, int | None]]:
    """Yields the topics and partitions that a row names. A name such as `orders-2` may be a topic or a partition, so both are
    yielded.
    """
    if hasattr(row, "topic"):
        yield row.topic, getattr(row, "partition", None)
        return
    if (batch := batch_of(row)) is not None:
        yield batch.topic, batch.partition
    for name in _about(row):
        if " " not in name:
            yield name, None
            if match := _IN_NAME.fullmatch(name):
                yield match[1], int(match[2])


def groups_of(row: Row) -> Iterator[str]:
    """Yields the groups that a row names."""
    if isinstance(row, GroupRow | ShareRow):
        yield row.group
    yield from (name.removeprefix(GROUP) for name in _about(row) if name.startswith(GROUP))


def transactions_of(row: Row) -> Iterator[str]:
    """Yields the transactional ids that a row names."""
    if isinstance(row, TransactionRow):
        yield row.transactional_id
    yield from (name.removeprefix(TRANSACTION) for name in _about(row) if name.startswith(TRANSACTION))


def _about(row: Row) -> tuple[str, ...]:
    if isinstance(row, TopicRow):  # the field `partitions` of a TopicRow is a number
        return ()
    named: tuple[str, ...] = getattr(row, "partitions", ()) or getattr(row, "about", ())
    return named


def batch_of(row: Row) -> ProduceRow | Batch | None:
    """Returns the batch that a row describes. For a row about a fault, returns the batch on which the fault fired."""
    return row if isinstance(row, ProduceRow) else row.batch if isinstance(row, FaultRow) else None


def _producers_of(row: Row) -> Iterator[int]:
    producer_id = getattr(batch_of(row) or row, "producer_id", None)
    if producer_id is not None:
        yield producer_id


def values_of(field: str) -> Callable[[Row], Iterable[Any]]:
    """Returns a function that returns the values of this field in a row. There may be no value, one value or several values."""

    def read(row: Row) -> Iterable[Any]:
        value = getattr(row, field, None)
        if value is None and field in details.NAMES:
            value = getattr(row, "details", {}).get(field)
        if isinstance(value, Batch):
            return astuple(value)
        if isinstance(value, dict):
            return value.values()
        return () if value is None else value if isinstance(value, tuple) else (value,)

    return read


NAMES: Mapping[str, Callable[[Row], Iterable[Any]]] = {
    "topic": lambda row: [topic for topic, _ in topics_of(row)],
    "client": values_of("client_id"),
    "principal": values_of("principal"),
    "connection": values_of("connection"),
    "producer": _producers_of,
    "transaction": transactions_of,
    "group": groups_of,
}
"""For each kind of subject, the function that returns the names of this kind in a row."""


class Subject:
    """One topic, client, principal, connection, producer, transaction or group. Tells which rows belong to it. `partition` is
    one partition of the topic, or None for all partitions."""

    def __init__(self, kind: str, name: Any, partition: int | None = None) -> None:
        self.kind, self.name, self._partition = kind, name, partition
        self._names = NAMES[kind]
        self._seen: set[Any] = set()
        self._producers: set[tuple[int, int]] = set()
        """The ids and epochs of the producers that have used the transactional id."""
        self._transactions: set[str] = set()
        """The transactional ids that the producer has used, or whose transactions have written to the topic and are open."""
        self._completed: set[TransactionRow] = set()
        """The rows of completed transactions that have written to the topic."""
        self._connections: set[tuple[int, int]] = set()
        self._exchanges: set[tuple[int, int, int]] = set()
        self._of_others: set[tuple[int, int, int]] = set()
        self._traces_requests = False

    def learn(self, row: Row) -> None:
        """Learn from a row which connections, producers and exchanges belong to the subject. Call this for all rows before
        `has`."""
        self._seen.update(self._names(row))
        named = self._is_named(row)
        self._traces_requests = self._traces_requests or isinstance(row, RequestRow)
        if self.kind == "producer" and (batch_of(row) is not None or (isinstance(row, ReplyRow) and row.producer_id >= 0)):
            (self._exchanges if named else self._of_others).add(exchange_of(row))
            if named:
                self._connections.add(exchange_of(row)[:2])
                self._transactions.update(transactions_of(row))
        elif self.kind == "principal" and named:
            self._connections.add(exchange_of(row)[:2])
        elif self.kind == "topic" and isinstance(row, TransactionRow):
            if named:
                self._transactions.add(row.transactional_id)
            elif row.transactional_id in self._transactions:
                self._transactions.remove(row.transactional_id)
                self._completed.add(row)
        elif named and isinstance(row, TransactionRow):
            if row.producer_id >= 0:
                self._producers.add((row.producer_id, row.producer_epoch))
            self._transactions.add(row.transactional_id)
        elif named and self.kind in ("transaction", "group") and hasattr(row, "correlation_id"):
            self._exchanges.add(exchange_of(row))

    def has(self, row: Row) -> bool:
        """Tells whether the row belongs to the subject."""
        if self._is_named(row):
            return True
        if self.kind == "topic":
            return isinstance(row, TransactionRow) and row in self._completed
        if self.kind == "producer":
            return self._is_of_producer(row)
        if self.kind == "principal":  # rows before the login do not name the principal, but are of the same connection
            return exchange_of(row)[1] > 0 and exchange_of(row)[:2] in self._connections
        if self.kind == "transaction" and _producer(row) in self._producers:
            return True
        return self.kind in ("transaction", "group") and exchange_of(row) in self._exchanges

    def _is_named(self, row: Row) -> bool:
        if self._partition is None:
            return self.name in self._names(row)
        return (self.name, self._partition) in topics_of(row)

    def _is_of_producer(self, row: Row) -> bool:
        """Tells whether the row belongs to the producer. A client's connection has only one producer at a time, so all requests
        of the connection belong to this producer.
        """
        if hasattr(row, "producer_id") and not (isinstance(row, ReplyRow) and row.producer_id < 0):
            return False
        exchange = exchange_of(row)
        if exchange[:2] in self._connections and (exchange in self._exchanges or exchange not in self._of_others):
            return True
        return not self._transactions.isdisjoint(transactions_of(row))

    def unknown(self) -> str:
        """Returns a message if none of the rows names the subject, else ""."""
        if self.name in self._seen:
            return ""
        others = sorted(map(str, self._seen - {-1}))
        if not others:
            everything = "" if self._traces_requests else "; with serve --trace-level all, the trace has all events"
            return f"no row is about a {self.kind}{everything}"
        advice = did_you_mean(self.name, others) if isinstance(self.name, str) else ""
        named = f"; there are {', '.join(others[:SHOWN])}{' …' * (len(others) > SHOWN)}"
        return f"no row is about the {self.kind} {self.name!r}{advice or named}"


def exchange_of(row: Row) -> ExchangeKey:
    """Returns the numbers of the exchange that a row is about. Each number that the row lacks is −1."""
    return getattr(row, "node", -1), getattr(row, "connection", -1), getattr(row, "correlation_id", -1)


def _producer(row: Row) -> tuple[int, int]:
    return getattr(row, "producer_id", -1), getattr(row, "producer_epoch", -1)
