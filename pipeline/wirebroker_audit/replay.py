"""What if the rules had been others: the arrivals of a trace, judged again by the broker's own `judge`.

The stored log gives every window the same verdict, so what is judged are the arrivals, accepted or not. They are what the
client sent after the answers that it got: behind the first batch of a producer that would have been answered otherwise, it
would have sent something else, and `beyond` counts those. Not asked again is what does not depend on the rules: batches that
were refused for their records, for their transaction, or because a write failed keep their verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.batches import BatchHeader
from wirebroker.core.producers import Accept, Duplicate, Key, Reject, Verdict, advance, judge, last_timestamp, poison
from wirebroker.core.profile import Rules, profile
from wirebroker_audit.checks import EXPIRATION_MS

Row = dict[str, Any]
WINDOWS = (1, 2, 5, 10)
NO_IDEMPOTENCE = "no idempotence"
JUDGED = frozenset(
    {"epoch_fenced", "unissued_producer_id", "first_not_zero", "refused_until_new_id", "new_epoch_not_zero", "gap",
     "before_window", "overlap"}
)  # fmt: skip
"""The rules by which `judge` rejects for an epoch or a sequence; other rejections do not depend on the profile."""


class Variant(NamedTuple):
    """Rules to judge by; None stands for a broker that knows no idempotence."""

    name: str
    rules: Rules | None

    @property
    def window(self) -> int:
        """Batches that are remembered of a producer."""
        return self.rules.window if self.rules else 0


def variants(windows: Sequence[int] = WINDOWS, profiles: Sequence[str] = ("textbook", "pulsar")) -> list[Variant]:
    """Kafka with each of these windows, these profiles, and no idempotence."""
    kafka = [Variant(f"window {window}", profile("kafka-4.3", window=window)) for window in windows]
    return [*kafka, *(Variant(name, profile(name)) for name in profiles), Variant(NO_IDEMPOTENCE, None)]


@dataclass(slots=True)
class Outcome:
    """What would have become of the arrivals of one partition. Counts are of batches, unless they say records."""

    topic: str
    partition: int
    variant: str
    window: int
    arrivals: int = 0
    accepted: int = 0
    recognised: int = 0
    rejected: int = 0
    beyond: int = 0
    """arrivals behind a batch of the same producer that would have been answered otherwise; counted above as well"""
    records: int = 0
    """how many would be stored"""
    state_bytes: int = 0
    """what the validator remembers in the end, of all producers"""
    saved: int = 0
    """retries that were not recognised and would have been"""
    lost: int = 0
    """batches that were accepted or recognised and would have been rejected"""
    doubled: int = 0
    """retries that were recognised and would have been stored again"""


OUTCOMES = pa.schema(
    [pa.field(each.name, pa.string() if each.type == "str" else pa.int64()) for each in fields(Outcome)]
)
ARRIVAL = (
    "time", "client_id", "topic", "partition", "producer_id", "producer_epoch", "first_sequence", "records", "bytes",
    "verdict", "rule",
)  # fmt: skip
"""The fields of `ProduceRow` that are asked."""


def what_if(
    arrivals: DataFrame, chosen: Sequence[Variant] | None = None, expiration_ms: int = EXPIRATION_MS
) -> DataFrame:
    """An `Outcome` for each partition and variant. `arrivals` have the fields of ARRIVAL and an `order`.

    A partition's arrivals are streamed, so that what is held are the producers' states and not the arrivals.
    """
    ordered = (
        arrivals.select(*ARRIVAL, "order")
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "order")
    )
    return ordered.mapInArrow(_replayer(list(chosen or variants()), expiration_ms), from_arrow_schema(OUTCOMES))


def _replayer(
    chosen: list[Variant], expiration_ms: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def replay(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        judges: list[Judge] = []
        for batch in batches:
            for row in batch.to_pylist():
                if not judges or (judges[0].result.topic, judges[0].result.partition) != (
                    row["topic"],
                    row["partition"],
                ):
                    yield from _results(judges)
                    judges = [Judge(each, row["topic"], row["partition"], expiration_ms) for each in chosen]
                for each in judges:
                    each.take(row)
        yield from _results(judges)

    return replay


def _results(judges: list[Judge]) -> Iterator[pa.RecordBatch]:
    if judges:
        yield pa.RecordBatch.from_pylist([asdict(each.finish()) for each in judges], schema=OUTCOMES)


class Judge:
    """One variant's validator on one partition, fed with its arrivals in order."""

    def __init__(self, variant: Variant, topic: str, partition: int, expiration_ms: int = EXPIRATION_MS) -> None:
        self.result = Outcome(topic, partition, variant.name, variant.window)
        self._rules = variant.rules
        self._expiration_ms = expiration_ms
        self._states: dict[Key, bytes] = {}
        self._end = 0
        self._diverged: set[Key] = set()

    def finish(self) -> Outcome:
        """What came of it."""
        self.result.state_bytes = sum(map(len, self._states.values()))
        return self.result

    def take(self, row: Row) -> None:
        """The next arrival."""
        by_name = self._rules is not None and self._rules.key == "client_id"
        key: Key = (row["client_id"] or "") if by_name else row["producer_id"]
        self.result.arrivals += 1
        self.result.beyond += key in self._diverged
        state = self._states.get(key)
        if state is not None and row["time"] - last_timestamp(state) >= self._expiration_ms:
            state = None
        header = _header(row)
        verdict = self._verdict(row, header, state)
        name = row["verdict"] if verdict is None else _name(verdict)
        if isinstance(verdict, Accept):
            if verdict.rule != "no_producer" and self._rules is not None:
                self._states[key] = advance(state, header, self._end, row["time"], self._rules)
            self._end += row["records"]
        elif isinstance(verdict, Reject) and verdict.poisons and state is not None:
            self._states[key] = poison(state)
        self._count(row, name)
        if name != row["verdict"]:
            self._diverged.add(key)

    def _verdict(self, row: Row, header: BatchHeader, state: bytes | None) -> Verdict | None:
        """The verdict under these rules; None if it is not theirs to decide."""
        if row["verdict"] == "rejected" and row["rule"] not in JUDGED:
            return None
        rules = self._rules
        if rules is None or header.base_sequence < 0 or (header.producer_id < 0 and rules.key == "producer_id"):
            return Accept(self._end, "no_producer")
        return judge(state, header, rules, self._end, issued=row["rule"] != "unissued_producer_id")

    def _count(self, row: Row, name: str) -> None:
        result, was = self.result, row["verdict"]
        if name == "accepted":
            result.accepted += 1
            result.records += row["records"]
            result.doubled += was == "duplicate"
        elif name == "duplicate":
            result.recognised += 1
            result.saved += was != "duplicate"
        else:
            result.rejected += 1
            result.lost += was != "rejected"


def _header(row: Row) -> BatchHeader:
    """The header as far as the judge reads it. A transaction is none of its questions here."""
    return BatchHeader(
        0, row["bytes"], -1, 2, 0, 0, row["records"] - 1, row["time"], row["time"], row["producer_id"],
        row["producer_epoch"], row["first_sequence"], row["records"],
    )  # fmt: skip


def _name(verdict: Verdict) -> str:
    if isinstance(verdict, Accept):
        return "accepted"
    return "duplicate" if isinstance(verdict, Duplicate) else "rejected"
