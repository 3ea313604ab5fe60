"""Judges the arrivals of a trace again: what if the broker had other rules? See `wirebroker.audit.other_rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from wirebroker.audit.findings import EXPIRATION_MS, WINDOWS
from wirebroker.audit.validator import COUNTS, Validator
from wirebroker.core.profile import DEFAULT_PROFILE, Rules, profile
from wirebroker_audit.spark.tables import mapped

NO_IDEMPOTENCE = "no idempotence"


class Variant(NamedTuple):
    """The rules by which batches are judged; None stands for a broker without idempotence."""

    name: str
    rules: Rules | None

    @property
    def window(self) -> int:
        """The number of batches that the broker remembers for each producer."""
        return self.rules.window if self.rules else 0


def variants(windows: Sequence[int] = WINDOWS, profiles: Sequence[str] = ("textbook", "pulsar")) -> list[Variant]:
    """Returns the variants to try: each of these windows with Kafka's other rules, each of these profiles, and a broker without
    idempotence."""
    kafka = [Variant(f"window {window}", profile(DEFAULT_PROFILE, window=window)) for window in windows]
    return [*kafka, *(Variant(name, profile(name)) for name in profiles), Variant(NO_IDEMPOTENCE, None)]


@dataclass(slots=True)
class Outcome:
    """The outcome of one partition's arrivals under other rules, with the counts of `WhatIf`."""

    topic: str
    partition: int
    variant: str
    window: int
    arrivals: int = 0
    accepted: int = 0
    recognised: int = 0
    rejected: int = 0
    beyond: int = 0
    records: int = 0
    state_bytes: int = 0
    saved: int = 0
    lost: int = 0
    doubled: int = 0


OUTCOMES = pa.schema([pa.field(each.name, pa.string() if each.type == "str" else pa.int64()) for each in fields(Outcome)])


class Arrived(NamedTuple):
    """The fields of `ProduceRow` that the validator reads."""

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
    """Returns an `Outcome` for each partition and variant. `arrivals` have the fields of Arrived and an `order`.

    A partition's arrivals are streamed, so memory holds only the producers' states.
    """
    ordered = (
        arrivals.select(*Arrived._fields, "order")
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "order")
    )
    return mapped(ordered, _replayer(list(chosen or variants()), expiration_ms), from_arrow_schema(OUTCOMES))


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
    """One variant's validator on one partition; it judges the arrivals in order."""

    def __init__(self, variant: Variant, topic: str, partition: int, expiration_ms: int = EXPIRATION_MS) -> None:
        self.result = Outcome(topic, partition, variant.name, variant.window)
        self._validator = Validator(variant.rules, expiration_ms)

    def finish(self) -> Outcome:
        """Returns the outcome so far."""
        for count in COUNTS:
            setattr(self.result, count, getattr(self._validator, count))
        return self.result

    def take(self, row: Arrived) -> None:
        """Judge the next arrival."""
        self.result.arrivals += 1
        change = self._validator.take(row)
        if change is not None:
            setattr(self.result, change, getattr(self.result, change) + 1)
