"""A live broker as Spark Data Sources: batches (`kafka-broker-batches`) and records (`kafka-broker-records`).

    spark.read.format("kafka-broker-batches").option("bootstrap", "127.0.0.1:9092").load()

Options: `bootstrap`, `topics` (joined by commas, all if absent), `parallelism` (into how many ranges of offsets the whole is
split at least), `partitions` (what is there, as `partitions_as_text` writes it; asked for if absent), `keep` (a folder: the
batches go there as Parquet, and what is read are their runs). Every batch that is stored is read, committed or not, and
markers as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wirebroker_audit import schema
from wirebroker_audit.live_log import Range, read_range, split_offsets
from wirebroker_audit.sources.files import rows_of
from wirebroker_audit.sources.streams import BrokerStream
from wirebroker_audit.wire import Client, LivePartition


@dataclass
class OneRange(InputPartition):
    """What one task fetches; nothing, where no partition holds anything."""

    range: Range | None


class BrokerReader(DataSourceReader):
    """Asks for offsets on the driver, fetches on the executors."""

    def __init__(self, options: Mapping[str, str], records: bool) -> None:
        self._bootstrap = options["bootstrap"]
        self._parallelism = int(options.get("parallelism", 1))
        self._live = partitions_from(options["partitions"]) if "partitions" in options else None
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))
        self._records = records
        self._keep = Path(options["keep"]) if "keep" in options else None

    def partitions(self) -> list[InputPartition]:
        live = self._live
        if live is None:
            client = Client(self._bootstrap)
            try:
                live = client.partitions(self._topics)
            finally:
                client.close()
        return [OneRange(each) for each in split_offsets(live, self._bootstrap, self._parallelism)] or [OneRange(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OneRange)
        wanted = partition.range
        chunks = read_range(wanted) if wanted is not None else iter(())
        return rows_of(chunks, self._records, self._keep, wanted.number if wanted is not None else 0)


def partitions_as_text(live: list[LivePartition]) -> str:
    """Partitions with their offsets as an option's text, so that every reading sees the same ones."""
    return json.dumps([[each.topic, each.partition, each.leader, each.start, each.end, each.compacted] for each in live])


def partitions_from(text: str) -> list[LivePartition]:
    """What `partitions_as_text` wrote."""
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
