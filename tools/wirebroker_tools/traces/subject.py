"""Selects the rows of a trace that belong to a topic, a client, a principal, a producer, a transaction or a group.

A row belongs to a subject if the row names the subject. But the rows of requests and responses do not name a producer, and the
row of a batch does not name a transactional id. Therefore the caller first passes all rows to `learn`, which remembers the
connections and exchanges of rows that name the subject. Then `has` also finds the other rows of these connections and
exchanges. And the row of a completed transaction does not name the transaction's partitions, so `learn` remembers this row if
the transaction has written to the topic.
"""

from __future__ import annotations

from typing import Any

from wirebroker.common.suggestions import did_you_mean
from wirebroker.trace.rows import ReplyRow, RequestRow, Row, TransactionRow
from wirebroker.trace.selection import NAMES, ExchangeKey, batch_of, exchange_of, topics_of, transactions_of

SHOWN = 10
"""A message lists at most this many names."""


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
        self._exchanges: set[ExchangeKey] = set()
        self._of_others: set[ExchangeKey] = set()
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


def _producer(row: Row) -> tuple[int, int]:
    return getattr(row, "producer_id", -1), getattr(row, "producer_epoch", -1)
