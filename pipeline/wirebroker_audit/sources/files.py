"""Segment files as Spark Data Sources: batches (`kafka-segments`) and records (`kafka-segment-records`).

    spark.dataSource.register(SegmentSource)
    spark.read.format("kafka-segments").option("path", DIR).load()

Options: `path`, `topics` (separated by commas, all if absent), `only` (of these the topics to read), `split.bytes`,
`parallelism` (the least number of tasks, if the log is large enough), `expiration` (ms until a broker forgets a producer),
`keep` (a folder that receives the batches as Parquet; the source then returns their runs), `plan` (a file of `save_plan`: the
source reads these splits, even if the directory has changed).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.folding.runs import keep_and_fold
from wirebroker_audit.logs.remote import place
from wirebroker_audit.reading.records import record_rows
from wirebroker_audit.reading.scan import Chunk
from wirebroker_audit.reading.segments import Split, read_split
from wirebroker_audit.reading.splits import SPLIT_BYTES, find_splits
from wirebroker_audit.sources.packing import packed
from wirebroker_audit.sources.streams import SegmentStream
from wirebroker_audit.spark import schema

LEAST_SHARE = 16 * 1024 * 1024
"""The least bytes of a task when a segment is split."""


@dataclass
class Splits(InputPartition):
    """The splits that one task reads: a large one, or many small ones."""

    splits: list[Split]


class SegmentReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Mapping[str, str], records: bool) -> None:
        self._root = place(options["path"])
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))
        self._split_bytes = int(options.get("split.bytes", SPLIT_BYTES))
        self._parallelism = int(options.get("parallelism", 1))
        self._records = records
        self._keep = Path(options["keep"]) if "keep" in options else None
        self._plan = Path(options["plan"]) if "plan" in options else None
        self._expiration_ms = int(options.get("expiration", EXPIRATION_MS))
        self._only = frozenset(options["only"].split(",")) if "only" in options else None

    def partitions(self) -> list[InputPartition]:
        splits = self.splits() if self._plan is None else load_plan(self._plan)
        if self._only is not None:
            splits = [each for each in splits if each.topic in self._only]
        work = ((each.stop - each.start, each) for each in splits)
        tasks = packed(work, min(self._split_bytes, self._share(splits)))
        return [Splits(each) for each in tasks] or [Splits([])]

    def splits(self) -> list[Split]:
        """The splits of the directory as it is now."""
        splits = find_splits(self._root, self._topics, self._split_bytes)
        share = self._share(splits)
        if LEAST_SHARE <= share < self._split_bytes:  # let a smaller log use all cores too
            return find_splits(self._root, self._topics, share)
        return splits

    def _share(self, splits: list[Split]) -> int:
        """Bytes of a task if all tasks are equal."""
        return -(-sum(each.stop - each.start for each in splits) // self._parallelism)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Splits)
        chunks = (chunk for split in partition.splits for chunk in read_split(split, self._expiration_ms))
        number = partition.splits[0].number if partition.splits else 0
        return rows_of(chunks, self._records, self._keep, number)


def save_plan(options: Mapping[str, str], path: Path) -> None:
    """Write the splits of the directory as it is now, so that all readings read the same. Raises NotALogDirectory."""
    save_splits(SegmentReader(options, records=False).splits(), path)


def save_splits(splits: list[Split], path: Path) -> None:
    """Write these splits as a plan."""
    path.write_text(json.dumps([astuple(each) for each in splits]), encoding="utf-8")


def load_plan(path: Path) -> list[Split]:
    """The splits of a plan."""
    return [Split(*each) for each in json.loads(path.read_text(encoding="utf-8"))]


def rows_of(chunks: Iterator[Chunk], records: bool, keep: Path | None, number: int) -> Iterator[pa.RecordBatch]:
    """The rows of a source: records, batches, or the runs of batches that are kept in the file with this number."""
    if records:
        return record_rows(chunks)
    batches = (chunk.rows for chunk in chunks)
    return batches if keep is None else keep_and_fold(batches, keep / f"part-{number:05d}.parquet")


class SegmentSource(DataSource):
    """The record batches in a Kafka log directory."""

    @classmethod
    def name(cls) -> str:
        return "kafka-segments"

    def schema(self) -> StructType:
        return schema.RUNS if "keep" in self.options else schema.BATCHES

    def reader(self, schema: StructType) -> SegmentReader:
        return SegmentReader(self.options, records=False)

    def streamReader(self, schema: StructType) -> SegmentStream:  # noqa: N802 - Spark's name
        return SegmentStream(self.options)


class SegmentRecordSource(DataSource):
    """The records in a Kafka log directory."""

    @classmethod
    def name(cls) -> str:
        return "kafka-segment-records"

    def schema(self) -> StructType:
        return schema.RECORDS

    def reader(self, schema: StructType) -> SegmentReader:
        return SegmentReader(self.options, records=True)
