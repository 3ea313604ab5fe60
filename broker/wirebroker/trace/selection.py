"""The names of topics, clients, principals, producers, transactions and groups in the rows of a trace, and the exchange of each
row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import astuple

from wirebroker.requests import details
from wirebroker.requests.facts import Batch
from wirebroker.trace.rows import FaultRow, GroupRow, ProduceRow, Row, ShareRow, TopicRow, TransactionRow

_IN_NAME = re.compile(r"(.*)-(\d+)")
GROUP, TRANSACTION = "group ", "transaction "
"""In a row's list of names, groups and transactional ids have these prefixes; topics have no prefix."""
ExchangeKey = tuple[int, int, int]
"""The numbers of an exchange in a trace: node, connection, correlation id."""


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


def exchange_of(row: Row) -> ExchangeKey:
    """Returns the numbers of the exchange that a row is about. Each number that the row lacks is −1."""
    return getattr(row, "node", -1), getattr(row, "connection", -1), getattr(row, "correlation_id", -1)
