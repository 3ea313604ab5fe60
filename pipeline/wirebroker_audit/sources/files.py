"""Segment files as a Spark Data Source: `spark.read.format("kafka-segments").option("path", DIR).load()`.

Options: `path`, `topics` (joined by commas, all if absent), `split.bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wirebroker_audit import schema
from wirebroker_audit.segments import SPLIT_BYTES, Split, find_splits, read_split


@dataclass
class Splits(InputPartition):
    """Splits that one task reads one after another: a large one, or many small ones."""

    splits: list[Split]


class SegmentSource(DataSource):
    """The record batches in a Kafka log directory."""

    @classmethod
    def name(cls) -> str:
        return "kafka-segments"

    def schema(self) -> StructType:
        return schema.BATCHES

    def reader(self, schema: StructType) -> SegmentReader:
        return SegmentReader(self.options)


class SegmentReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: dict[str, str]) -> None:
        self._root = Path(options["path"])
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))
        self._split_bytes = int(options.get("split.bytes", SPLIT_BYTES))

    def partitions(self) -> list[InputPartition]:
        packed: list[InputPartition] = []
        held: list[Split] = []
        room = self._split_bytes
        for split in find_splits(self._root, self._topics, self._split_bytes):
            if held and room < split.stop - split.start:
                packed.append(Splits(held))
                held, room = [], self._split_bytes
            held.append(split)
            room -= split.stop - split.start
        return [*packed, Splits(held)] if held else packed

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Splits)
        for split in partition.splits:
            yield from read_split(split)
