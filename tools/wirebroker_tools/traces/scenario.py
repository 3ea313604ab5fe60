"""Makes a scenario file from rows. The scenario repeats what the application did, and the failures that the application met.
`wirebroker scenario` plays it.

All rows count as rows of one application. Each batch becomes one record in the scenario, because the clients of scenarios send
each record in a batch of its own. If the sequence rules do not explain an error, the error becomes a fault that fires at the
same request. Each loaded fault rule that fired goes into the file, without the words that name clients or brokers. The topic
with the most batches becomes the scenario's topic `orders`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from wirebroker.common.toml import toml_of
from wirebroker.trace.rows import FaultRow, ProduceRow, ReplyRow, Row, ShadowRow, TransactionRow
from wirebroker.trace.selection import ExchangeKey, exchange_of, topics_of

ORDERS = "orders"
USUAL = frozenset(("NONE", "MEMBER_ID_REQUIRED", "DUPLICATE_SEQUENCE_NUMBER"))
"""The errors that the broker also returns without a fault."""
STRANGERS = ("client_id", "producer_id", "producer_epoch", "transactional_id", "group", "node")
"""The words of a fault rule that name clients or brokers in the recording. They are left out, because the scenario has other
clients and brokers.
"""


def scenario_of(rows: Sequence[Row], rules: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the text of a scenario file. `rules` has the words of each loaded fault rule, by the rule's description. Raises
    ValueError if no row is about a batch."""
    batches = [row for row in rows if isinstance(row, ProduceRow)]
    if not batches:
        raise ValueError("no row is about a batch, so there is nothing to produce; choose rows with verdicts")
    topic = Counter(batch.topic for batch in batches).most_common(1)[0][0]
    batches = [batch for batch in batches if batch.topic == topic]
    found = [*_faults_of(rows, rules, topic), *_refused(rows, topic)]
    first = batches[0]
    parts = [
        f"title = {toml_of(f'recorded: {len(batches)} batches to {topic}')}",
        'broker_does = "The faults below repeat what the broker did in the recording."',
        'good_client = "The client loses, doubles and reorders no record, or tells the application."',
        "sources = []",
        f"steps = {_toml_steps(_steps(rows, topic))}",
        f"\n[broker]\npartitions = {max(batch.partition for batch in batches) + 1}",
        f"\n[producer]\nidempotence = {toml_of(first.producer_id >= 0)}",
        f"acks = {toml_of('all' if first.acks < 0 else first.acks)}",
        *(['transactional_id = "recorded"'] if any(batch.transactional for batch in batches) else []),
        *("\n[[fault]]\n" + "\n".join(f"{word} = {toml_of(value)}" for word, value in rule.items()) for rule in found),
        '\n[expect]\noutcome = ["recovers", "fails cleanly"]\n',
    ]
    return "\n".join(parts)


def _steps(rows: Iterable[Row], topic: str) -> Iterator[dict[str, Any]]:
    """Yields the application's steps. A batch that was sent several times counts once."""
    for (transaction, _), batches in groupby(_fresh(rows, topic), lambda each: (each[0], each[0] < 0 and each[1])):
        partitions = [partition for _, partition in batches]
        produce = {"produce": len(partitions), "partitions": list(dict.fromkeys(partitions))}
        yield from ({"begin": True}, produce, {_ending(rows, transaction): True}) if transaction >= 0 else (produce,)


def _fresh(rows: Iterable[Row], topic: str) -> Iterator[tuple[int, int]]:
    """For the first sending of each batch, yields the number of the batch's transaction (−1 without a transaction) and the
    batch's partition.
    """
    seen: set[tuple[int, int, int, int]] = set()
    ended = 0
    for row in rows:
        ended += isinstance(row, ReplyRow) and row.api == "EndTxn"
        if isinstance(row, ProduceRow) and row.topic == topic:
            name = row.partition, row.producer_id, row.producer_epoch, row.first_sequence
            if row.first_sequence < 0 or name not in seen:
                yield ended if row.transactional else -1, row.partition
            seen.add(name)


def _ending(rows: Iterable[Row], transaction: int) -> str:
    """Returns how the transaction ended: "abort" or "commit". The trace of a proxy does not show aborts."""
    ended = 0
    for row in rows:
        if isinstance(row, TransactionRow) and row.state == "PrepareAbort" and ended == transaction:
            return "abort"
        ended += isinstance(row, ReplyRow) and row.api == "EndTxn"
    return "commit"


def _faults_of(rows: Iterable[Row], rules: Mapping[str, Mapping[str, Any]], topic: str) -> Iterator[dict[str, Any]]:
    """Yields the words of the loaded rules that fired, except words that name clients or brokers."""
    for description in dict.fromkeys(row.rule for row in rows if isinstance(row, FaultRow)):
        if (words := rules.get(description)) is not None and words.get("topic", topic) == topic:
            yield {word: ORDERS if word == "topic" else value for word, value in words.items() if word not in STRANGERS}


def _refused(rows: Iterable[Row], topic: str) -> Iterator[dict[str, Any]]:
    """Yields a fault `error` for each error that neither a fault rule nor the sequences explain. If the error was in the
    response to the nth request of an API, the fault fires at the nth request. For Produce, batches are counted instead of
    requests.
    """
    explained: dict[ExchangeKey, set[str]] = {}
    for row in rows:
        if isinstance(row, FaultRow):
            explained.setdefault(exchange_of(row), set()).add("")
        elif isinstance(row, ProduceRow) and not (isinstance(row, ShadowRow) and row.agrees is not True):
            explained.setdefault(exchange_of(row), set()).add(row.error)
    asked: Counter[str] = Counter()
    for row in rows:
        if not isinstance(row, ReplyRow):
            continue
        places = sorted({index for name, index in topics_of(row) if name == topic and index is not None})
        if row.api == "Produce" and not places:
            continue
        known = explained.get(exchange_of(row), set())
        for error in row.errors if "" not in known else ():
            if error not in known | USUAL:
                yield {"kind": "error", "api": row.api, "code": error, "nth": asked[row.api] + 1}
        asked[row.api] += max(len(places), 1) if row.api == "Produce" else 1


def _toml_steps(steps: Iterable[Mapping[str, Any]]) -> str:
    inner = "".join(f"    {{ {', '.join(f'{word} = {toml_of(value)}' for word, value in step.items())} }},\n" for step in steps)
    return f"[\n{inner}]"
