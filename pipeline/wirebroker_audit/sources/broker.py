"""A live broker as Spark Data Sources: batches (`kafka-broker-batches`) and records (`kafka-broker-records`).

    spark.dataSource.register(BrokerSource)
    spark.read.format("kafka-broker-batches").option("bootstrap", "127.0.0.1:9092").load()

Options: `bootstrap`, `topics` (separated by commas, all if absent), `parallelism` (the least number of ranges of offsets),
`partitions` (a text of `partitions_as_text`; requested from the broker if absent), `access.secret` (an `Access`
as text; plaintext if absent), `first.number` (the number of the first range); as for files `keep`, `expiration`, `only`.
Every stored batch is read, committed or not, and so are markers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker.client.settings import Access
from wirebroker_audit.reading.live_log import Range, read_range, split_offsets
from wirebroker_audit.sources.files import rows_of
from wirebroker_audit.sources.streams import BrokerStream
from wirebroker_audit.spark import schema
from wirebroker_audit.wire import Client, LivePartition


@dataclass
class OneRange(InputPartition):
    """The range that one task fetches; None if all partitions are empty."""

    range: Range | None


class BrokerReader(DataSourceReader):
    """Requests offsets on the driver and fetches on the executors."""

    def __init__(self, options: Mapping[str, str], records: bool) -> None:
        self._bootstrap = options["bootstrap"]
        self._access = Access.of(options)
        self._first = int(options.get("first.number", 0))
        self._parallelism = int(options.get("parallelism", 1))
        self._live = partitions_from(options["partitions"]) if "partitions" in options else None
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))
        self._records = records
        self._keep = Path(options["keep"]) if "keep" in options else None
        self._expiration_ms = int(options.get("expiration", EXPIRATION_MS))
        self._only = frozenset(options["only"].split(",")) if "only" in options else None

    def partitions(self) -> list[InputPartition]:
        live = self._live
        if live is None:
            client = Client(self._bootstrap, self._access)
            try:
                live = client.partitions(self._topics)
            finally:
                client.close()
        if self._only is not None:
            live = [each for each in live if each.topic in self._only]
        access = self._access.shared_by(self._parallelism)
        ranges = split_offsets(live, self._bootstrap, self._parallelism, access)
        return [OneRange(replace(each, number=self._first + each.number)) for each in ranges] or [OneRange(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OneRange)
        wanted = partition.range
        chunks = read_range(wanted, self._expiration_ms) if wanted is not None else iter(())
        return rows_of(chunks, self._records, self._keep, wanted.number if wanted is not None else 0)


def partitions_as_text(live: list[LivePartition]) -> str:
    """Partitions with their offsets as the text of an option, so that all readings read the same offsets."""
    return json.dumps([[each.topic, each.partition, each.leader, each.start, each.end, each.compacted] for each in live])


def partitions_from(text: str) -> list[LivePartition]:
    """The partitions in a text of `partitions_as_text`."""
    return [LivePartition(*each) for each in json.loads(text)]


class BrokerSource(DataSource):
    """The record batches of a live cluster."""

    @classmethod
    def name(cls) -> str:
        return "kafka-broker-batches"

    def schema(self) -> StructType:
        return schema.RUNS if "keep" in self.options else schema.BATCHES

    def reader(self, schema: StructType) -> BrokerReader:
        return BrokerReader(self.options, records=False)

    def streamReader(self, schema: StructType) -> BrokerStream:  # noqa: N802 - Spark's name
        return BrokerStream(self.options)


class BrokerRecordSource(DataSource):
    """The records of a live cluster."""

    @classmethod
    def name(cls) -> str:
        return "kafka-broker-records"

    def schema(self) -> StructType:
        return schema.RECORDS

    def reader(self, schema: StructType) -> BrokerReader:
        return BrokerReader(self.options, records=True)
