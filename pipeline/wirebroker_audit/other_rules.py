"""What if the rules had been others: the arrivals of a trace, judged again by the broker's own `judge`.

The stored log gives every window the same verdict, so what is judged are the arrivals, accepted or not. They are what the
client sent after the answers that it got: behind the first batch of a producer that would have been answered otherwise, it
would have sent something else, and `beyond` counts those. Not asked again is what does not depend on the rules: batches that
were refused for their records, for their transaction, or because a write failed keep their verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from wirebroker.audit.findings import EXPIRATION_MS, WINDOWS
from wirebroker.audit.validator import COUNTS, Validator
from wirebroker.core.profile import Rules, profile

NO_IDEMPOTENCE = "no idempotence"


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


OUTCOMES = pa.schema([pa.field(each.name, pa.string() if each.type == "str" else pa.int64()) for each in fields(Outcome)])


class Arrived(NamedTuple):
    """The fields of `ProduceRow` that are asked."""

    time: int
    client_id: str | None
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    records: int
    bytes: int
    verdict: str
    rule: str


def what_if(arrivals: DataFrame, chosen: Sequence[Variant] | None = None, expiration_ms: int = EXPIRATION_MS) -> DataFrame:
    """An `Outcome` for each partition and variant. `arrivals` have the fields of Arrived and an `order`.

    A partition's arrivals are streamed, so that what is held are the producers' states and not the arrivals.
    """
    ordered = (
        arrivals.select(*Arrived._fields, "order")
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "order")
    )
    return ordered.mapInArrow(_replayer(list(chosen or variants()), expiration_ms), from_arrow_schema(OUTCOMES))


def _replayer(chosen: list[Variant], expiration_ms: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def replay(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        judges: list[Judge] = []
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in Arrived._fields)
            for row in map(Arrived._make, zip(*columns, strict=True)):
                place = row.topic, row.partition
                if not judges or (judges[0].result.topic, judges[0].result.partition) != place:
                    yield from _results(judges)
                    judges = [Judge(each, *place, expiration_ms) for each in chosen]
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
        self._validator = Validator(variant.rules, expiration_ms)

    def finish(self) -> Outcome:
        """What came of it."""
        for count in COUNTS:
            setattr(self.result, count, getattr(self._validator, count))
        return self.result

    def take(self, row: Arrived) -> None:
        """The next arrival."""
        self.result.arrivals += 1
        change = self._validator.take(row)
        if change is not None:
            setattr(self.result, change, getattr(self.result, change) + 1)
